-- Begin the next term, if all is still as it was seen. $1 term and $2 beat that were seen · $3 node
-- · $4 seconds of its lease · $5 now
update taskforge.leadership set term = term + 1, beat = 0, node = $3, lease_seconds = $4, since = $5
where one = 1 and term = $1 and beat = $2
