-- Remove lanes in which nothing was, unless somebody has looked for them since. ?1 numbers · ?2
-- doubted before this time
delete from lanes where number in (select value from json_each(?1)) and doubted_at < ?2
