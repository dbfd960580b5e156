-- The version of a project's catalog that is in force, and its queues that changed behind another
-- one: one row without a queue where none did. One statement, one snapshot.
-- $1 project · $2 the version that is known · $3 most
select p.catalog_version as in_force, p.circuits_stamp, c.*
from taskforge.projects p
left join lateral (
    select * from taskforge.cards where cards.project = p.number and cards.stamp > $2 order by cards.stamp limit $3
) c on true
where p.number = $1
