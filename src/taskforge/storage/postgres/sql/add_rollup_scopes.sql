-- Scopes that are new. $1 projects · $2 queues · $3 job types · $4 workers
insert into taskforge.rollup_scopes (project, queue, job_type, worker)
select * from unnest($1::int[], $2::int[], $3::text[], $4::uuid[])
returning number, project, queue, job_type, worker
