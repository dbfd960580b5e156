-- How many jobs stand in lanes that go first: $1, no more than $6. They must not have expired by $5, in project
-- $7.
    (select count(*) from (
        select from taskforge.ready r
        where r.project = $7 and r.lane = any ($1::int[]) and r.key is null and (r.until is null or r.until > $5::timestamptz)
        union all
        select from taskforge.ready r
        where r.project = $7 and r.lane = any ($1::int[]) and r.key is not null and (r.until is null or r.until > $5::timestamptz)
        limit $6) x)
