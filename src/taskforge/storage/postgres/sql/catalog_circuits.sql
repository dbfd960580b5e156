-- The circuits of a project that claims go by: those that let nothing through, or probes alone, and
-- those of dependencies with the job types that depend on them. The closed ones of queues, however
-- many, are not read. $1 project
select c.number, c.queue, c.job_type, c.dependency, c.settings::text as settings, c.mode, c.room, c.state::text as state, array[]::text[] as types
from taskforge.circuits c where c.project = $1 and c.room is not null and c.dependency is null
union all
select c.number, c.queue, c.job_type, c.dependency, c.settings::text, c.mode, c.room, c.state::text,
    array(select d.job_type from taskforge.dependents d where d.circuit = c.number)
from taskforge.circuits c where c.project = $1 and c.dependency is not null
