-- The first step of a leader's write: nothing else is written once the term is over, and no other
-- term begins before this transaction ends. $1 term
update taskforge.leadership set writes = writes + 1 where one = 1 and term = $1 returning term
