-- Which group the failure of a job is in that ended without being run. ?1 group · ?2 queue · ?3 job
update finished set failure = ?1 where queue = ?2 and job = ?3
