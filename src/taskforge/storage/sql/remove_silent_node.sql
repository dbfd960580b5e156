-- A node has left that was not heard of since. $1 node · $2 when it was heard of last
delete from taskforge.nodes where id = $1 and seen_at = $2
