-- How many jobs of a queue are running. ?1 queue
select count(*) from running where lane in (select number from lanes where queue = ?1)
