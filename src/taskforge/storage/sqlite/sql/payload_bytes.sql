-- How large a job's payload is. ?1 job
select length(cast(payload as blob)) from jobs where id = ?1
