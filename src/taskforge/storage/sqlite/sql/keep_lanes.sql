-- Take the doubt from lanes in which something is. ?1 numbers · ?2 now
update lanes set doubted_at = null, kept_at = ?2 where number in (select value from json_each(?1))
