-- A node that is known is there. $1 node · $2 now · $3 how its services fare, JSON, or null for as
-- it was said before
update taskforge.nodes set seen_at = $2, upkeep = coalesce($3, upkeep) where id = $1 returning id
