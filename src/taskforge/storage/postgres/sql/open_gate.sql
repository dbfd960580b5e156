-- A queue has a limit now: it gets a gate, and what it runs already counts. $1 queue · $2 whether
-- its rate learns from what comes of its jobs
with gate as (
    insert into taskforge.gates (queue, learns) values ($1, $2) on conflict (queue) do update set learns = excluded.learns
)
update taskforge.running set gate = $1 where gate is null and queue = $1
