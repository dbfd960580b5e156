-- Events older than a day. The inner limit comes before the test of age: the walk ends there
-- whether it finds old ones or not. ?1 before · ?2 limit
delete from outbox where number in (select number from (select number, at from outbox order by number limit ?2) where at < ?1)
returning number
