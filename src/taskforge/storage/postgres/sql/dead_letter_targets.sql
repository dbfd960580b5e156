-- The live queues of a project that send their dead letters somewhere, where to, and one that is
-- asked for though it may not. $1 project · $2 id
select id, name, (settings ->> 'dead_letter_queue_id')::uuid as target from taskforge.queues
where project = $1 and settings ->> 'dead_letter_queue_id' is not null and deleted_at is null
union
select id, name, (settings ->> 'dead_letter_queue_id')::uuid from taskforge.queues where id = $2 and project = $1 and deleted_at is null
