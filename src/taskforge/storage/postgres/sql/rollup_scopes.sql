-- The numbers of scopes that are known. $1 projects · $2 queues · $3 job types · $4 workers
select s.number, s.project, s.queue, s.job_type, s.worker
from unnest($1::int[], $2::int[], $3::text[], $4::uuid[]) as a (project, queue, job_type, worker)
join taskforge.rollup_scopes s using (project, queue, job_type, worker)
