-- A scaling policy of a queue that has none. $1 the queue's id · $2 project · $3 id · $4 provider · $5
-- whether it is paused · $6 whether it only advises · $7 policy, JSON · $8 state, JSON · $9 now
insert into taskforge.scaling_policies (queue, id, project, provider, is_paused, is_dry_run, policy, state, state_version,
    version, created_at, updated_at)
select number, $3, project, $4, $5, $6, $7, $8, 1, 1, $9, $9
from taskforge.queues where id = $1 and project = $2 and deleted_at is null
on conflict (queue) do nothing returning queue
