-- All queues of these projects, deleted ones too. ?1 projects
select number from queues where project in (select value from json_each(?1))
