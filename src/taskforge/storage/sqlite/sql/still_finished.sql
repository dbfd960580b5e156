-- ?1 job ids, one behind the other · ?2 a list as long · ?3 queue · ?4 the time before which they
-- must have finished
select f.job, f.status from json_each(?2) i cross join finished f on f.queue = ?3 and f.job = substr(?1, i.key * 16 + 1, 16)
where f.finished_at < ?4
