-- Whose a project is. $1 project
select organization from taskforge.projects where number = $1
