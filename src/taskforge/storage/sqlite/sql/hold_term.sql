-- The first step of a leader's write: nothing else is written once the term is over. ?1 term
update leadership set writes = writes + 1 where one = 1 and term = ?1 returning term
