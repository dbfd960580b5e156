-- What payloads, results, outputs and logs of projects take as they are kept, compressed or not:
-- nothing of them is read for it. $1 projects
select cast((select coalesce(sum(pg_column_size(payload)), 0) from taskforge.jobs where project = any ($1::int[]))
    + (select coalesce(sum(pg_column_size(result)), 0) from taskforge.finished where project = any ($1::int[]))
    + (select coalesce(sum(pg_column_size(output)), 0) from taskforge.executions where project = any ($1::int[]))
    + (select coalesce(sum(pg_column_size(message) + coalesce(pg_column_size(metadata), 0)), 0) from taskforge.logs
        where project = any ($1::int[])) as bigint) as bytes
