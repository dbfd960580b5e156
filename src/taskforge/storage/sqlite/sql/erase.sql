-- ?1 job · ?2 now
update jobs set payload = null, edited_at = ?2 where id = ?1
