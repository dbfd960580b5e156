-- A group of failures, as it is now. $1 project · $2 its id · $3 job type · $4 error type · $5 message
-- · $6 first seen · $7 last seen · $8 count · $9 tally · $10 last job · $11 epoch of its execution
insert into taskforge.failure_groups (project, failure, job_type, error_type, message, first_seen, last_seen, count, tally, job, epoch)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
on conflict (project, failure) do update set first_seen = excluded.first_seen, last_seen = excluded.last_seen,
    count = excluded.count, tally = excluded.tally, job = excluded.job, epoch = excluded.epoch
