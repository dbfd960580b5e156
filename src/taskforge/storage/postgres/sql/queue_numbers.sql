-- All queues of these projects, deleted ones too. $1 projects
select number from taskforge.queues where project = any ($1::int[])
