-- How many live queues these projects have, counted so far. ?1 projects · ?2 most
select count(*) from (
    select 1 from queues where project in (select value from json_each(?1)) and deleted_at is null limit ?2
)
