-- Jobs leave ready or waiting to be placed anew. $1 fences
with unready as (
    delete from taskforge.ready where fence = any ($1::uuid[])
)
delete from taskforge.waiting where fence = any ($1::uuid[])
