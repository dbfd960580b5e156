-- A job leaves ready or waiting to be placed anew. $1 fence
with unready as (
    delete from taskforge.ready where fence = $1
)
delete from taskforge.waiting where fence = $1
