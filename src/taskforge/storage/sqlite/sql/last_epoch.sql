-- The highest epoch a finished job has reached, its last execution being among the others, or may
-- have since the backup that the file was restored from. ?1 job · ?2 by how much a restore raises
-- epochs
select max(coalesce((select max(epoch) from executions where job = ?1), 0), restores * ?2 + (restores > 0)) from horizons
