-- What payloads, results and logs of projects take. ?1 projects, a list
select (select coalesce(sum(length(cast(payload as blob))), 0) from jobs where project in (select value from json_each(?1)))
    + (select coalesce(sum(length(cast(result as blob))), 0) from finished where project in (select value from json_each(?1)))
    + (select coalesce(sum(length(cast(message as blob)) + coalesce(length(cast(metadata as blob)), 0)), 0) from logs
        where project in (select value from json_each(?1))) as bytes
