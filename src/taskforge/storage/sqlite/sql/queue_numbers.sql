-- Queues of these projects, deleted ones too. ?1 projects · ?2 most
select number from queues where project in (select value from json_each(?1)) limit ?2
