-- Ids and names of queues, also of those that were deleted. ?1 their numbers, a list
select q.number, q.id, q.name from json_each(?1) i cross join queues q on q.number = i.value
