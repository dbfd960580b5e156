-- Queues by their numbers. $1 numbers
select c.* from unnest($1::int[]) as n (number)
cross join lateral (select * from taskforge.cards where cards.number = n.number limit 1) c
