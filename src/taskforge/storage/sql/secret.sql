-- What the servers of one store share under a name. $1 name
select value from taskforge.secrets where name = $1
