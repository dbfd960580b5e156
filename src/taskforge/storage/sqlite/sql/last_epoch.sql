-- The highest epoch a finished job has reached, its last execution being among the others. ?1 job
select coalesce(max(epoch), 0) from executions where job = ?1
