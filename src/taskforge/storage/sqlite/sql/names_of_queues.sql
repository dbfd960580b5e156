-- What queues are called, those that were deleted among them. ?1 numbers, a list
select number, name from queues where number in (select value from json_each(?1))
