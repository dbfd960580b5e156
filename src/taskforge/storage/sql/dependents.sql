-- Which job types of a project depend on what. $1 project
select d.circuit, d.job_type, c.dependency from taskforge.dependents d join taskforge.circuits c on c.number = d.circuit
where d.project = $1 order by d.job_type, c.dependency
