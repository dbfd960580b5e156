-- What the rows of an organization take, by a count that has ended. $1 organization · $2 bytes
update taskforge.ceilings set counted_bytes = $2, reserved_before = 0 where organization = $1
