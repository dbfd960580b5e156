-- A queue has a limit now: it gets a gate, and what it runs already counts. $1 queue
with gate as (
    insert into taskforge.gates (queue) values ($1) on conflict do nothing
)
update taskforge.running set gate = $1 where gate is null and queue = $1
