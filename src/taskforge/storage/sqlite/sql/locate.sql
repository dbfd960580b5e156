-- Where a job stands, for a change. ?1 job
select * from jobs_now where id = ?1 and status is not null
