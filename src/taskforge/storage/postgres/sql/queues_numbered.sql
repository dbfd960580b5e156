-- Ids and names of queues, also of those that were deleted. $1 their numbers
select number, id, name from taskforge.queues where number = any ($1::int[])
