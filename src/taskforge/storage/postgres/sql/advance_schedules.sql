-- Move schedules on from the slot that they were read with; those that were changed or fired since
-- are left alone and not returned. A manual run moves nothing but the last job.
-- $1 numbers · $2 versions · $3 slots they were read with · $4 next slots · $5 when those are due ·
-- $6 last slots · $7 last jobs · $8 whether by hand
update taskforge.schedules s
set next_at = case when x.manual then s.next_at else x.next_at end,
    due_at = case when x.manual then s.due_at else x.due_at end,
    last_slot = coalesce(x.last_slot, s.last_slot),
    last_job = coalesce(x.last_job, s.last_job)
from unnest($1::int[], $2::int[], $3::timestamptz[], $4::timestamptz[], $5::timestamptz[], $6::timestamptz[], $7::uuid[], $8::boolean[])
    as x (number, version, expected, next_at, due_at, last_slot, last_job, manual)
where s.number = x.number and s.version = x.version and (x.manual or s.next_at = x.expected)
returning s.number
