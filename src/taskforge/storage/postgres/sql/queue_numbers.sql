-- Queues of these projects, deleted ones too. $1 projects · $2 most
select number from taskforge.queues where project = any ($1::int[]) limit $2
