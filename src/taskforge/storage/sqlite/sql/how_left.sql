-- How the life of a worker ended that has no lease. ?1 incarnation
select name, left_at is not null and died_at is null from workers where incarnation = ?1
