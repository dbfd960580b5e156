-- Workers of these projects by their name, id or incarnation, as workers.sql shows them. ?1 projects
-- · ?2 name · ?3 id or incarnation · ?4 now by the clock that leases go by
select w.*, (select count(*) from running r where r.worker = w.incarnation) as active
from (
    select q.incarnation from json_each(?1) p cross join workers q on q.project = p.value and q.name = ?2
    union
    select incarnation from workers where id = ?3 and project in (select value from json_each(?1))
    union
    select incarnation from workers where incarnation = ?3 and project in (select value from json_each(?1))
) m
cross join workers w on w.incarnation = m.incarnation
where (w.lease_until > ?4 or w.incarnation = (
        select n.incarnation from workers n
        where n.id = w.id and n.project = w.project order by n.registered_at desc, n.incarnation desc limit 1))
order by w.name, w.registered_at, w.incarnation
