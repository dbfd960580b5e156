-- The leader leads no more. $1 term · $2 its node
update taskforge.leadership set node = null, beat = beat + 1
where one = 1 and term = $1 and node = $2
