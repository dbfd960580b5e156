-- How many jobs of a limited queue are running. ?1 queue
select count(*) from running where gate = ?1
