-- ?1 numbers · ?2 now
update lanes set doubted_at = ?2 where number in (select value from json_each(?1)) and doubted_at is null
