-- A job type depends on something. $1 project · $2 job type · $3 the name of the dependency
insert into taskforge.dependents (project, job_type, circuit)
select c.project, $2, c.number from taskforge.circuits c where c.project = $1 and c.dependency = $3
on conflict do nothing
