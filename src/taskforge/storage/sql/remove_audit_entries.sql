-- Remove the entries up to and with the last one of a seal. $1 its xact · $2 its number
delete from taskforge.audit where (xact, number) <= ($1, $2)
