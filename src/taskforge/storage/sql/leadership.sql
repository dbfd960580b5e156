-- Who leads, and since when.
select term, node, since from taskforge.leadership
