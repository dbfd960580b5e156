-- What slots do, once for each: one that was there before is left alone and not returned.
-- $1 schedules · $2 slots · $3 projects · $4 outcomes · $5 jobs · $6 details · $7 whether by hand ·
-- $8 term · $9 now (tests)
insert into taskforge.slots (schedule, at, project, fired_at, outcome, job, detail, manual, term)
select x.schedule, x.at, x.project, coalesce($9::timestamptz, statement_timestamp()), x.outcome, x.job, x.detail, x.manual, $8
from unnest($1::int[], $2::timestamptz[], $3::int[], $4::text[], $5::uuid[], $6::text[], $7::boolean[])
    as x (schedule, at, project, outcome, job, detail, manual)
on conflict (schedule, at) do nothing
returning schedule, at
