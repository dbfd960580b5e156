-- Remove a scaling policy. $1 queue · $2 the version that was read, or 0 for whichever it has
delete from taskforge.scaling_policies where queue = $1 and ($2 = 0 or version = $2)
