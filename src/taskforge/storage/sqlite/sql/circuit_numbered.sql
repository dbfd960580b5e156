-- ?1 number
select number, queue, job_type, dependency, settings, state from circuits where number = ?1
