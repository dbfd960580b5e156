-- A node leaves. $1 node
delete from taskforge.nodes where id = $1 returning id
