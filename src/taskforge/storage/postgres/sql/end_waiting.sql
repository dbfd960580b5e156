-- End a job that was not running: it leaves ready and waiting for finished, without an execution of
-- its own.
-- $1 fence · $2 job · $3 queue · $4 project · $5 status · $6 attempt · $7 max attempts · $8 crashes
-- · $9 error · $10 reason · $11 now (tests) · $12 the group of its failure, or null · $13 job type
with unready as (
    delete from taskforge.ready where fence = $1
), unwaiting as (
    delete from taskforge.waiting where fence = $1
), freed as (
    delete from taskforge.keys where scope = 0 and job = $2
), tally as (
    insert into taskforge.tally_deltas (project, queue, status, count) values ($4, $3, $5, 1)
), event as (
    insert into taskforge.outbox (project, topic, queue, jobs, at)
    values ($4, 'job.' || (array['succeeded', 'failed', 'cancelled'])[$5 - 2], $3, array[$2], coalesce($11::timestamptz, statement_timestamp()))
), failed as (
    insert into taskforge.failure_deltas (project, queue, job_type, failure, count, job, epoch, error_type, message, at)
    select $4, $3, $13::text, $12::uuid, 1, $2, 0, $9::json ->> 'type', left($9::json ->> 'message', 1000), coalesce($11::timestamptz, statement_timestamp())
    where $12 is not null
)
insert into taskforge.finished (job, queue, project, status, epoch, attempt, max_attempts, crashes, finished_at, error, reason, failure)
values ($2, $3, $4, $5, 0, $6, $7, $8, coalesce($11::timestamptz, statement_timestamp()), $9::json, $10, $12)
