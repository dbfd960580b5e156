-- A finished job is to live again. ?1 queue · ?2 job
delete from finished where queue = ?1 and job = ?2
