-- What queues are called, those that were deleted among them. $1 numbers
select number, name from taskforge.queues where number = any ($1::int[])
