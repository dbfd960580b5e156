-- A lane by its number. ?1 number
select number, project, queue, job_type, priority, requires from lanes where number = ?1
