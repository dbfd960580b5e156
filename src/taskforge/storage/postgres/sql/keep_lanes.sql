-- Take the doubt from lanes that are about to be used. Waits for upkeep where it is removing one;
-- returns those that are there. $1 numbers
update taskforge.lanes set doubted_at = null, kept_at = now()
where number = any ($1::int[])
returning number
