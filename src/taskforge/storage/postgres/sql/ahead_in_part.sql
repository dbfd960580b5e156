-- How many jobs of some lanes became ready up to some turn of each, and so go before one. No more than
-- so many are counted. Jobs with a key stand in an index of their own.
-- $1 lanes and $2 the turn of each · $3 now · $4 most · $5 project
select count(*) from (
    select from unnest($1::int[], $2::bigint[]) as l (number, turn) cross join lateral (
        select from taskforge.ready r
        where r.project = $5 and r.lane = l.number and r.key is null and r.turn <= l.turn
          and (r.until is null or r.until > $3::timestamptz)
        union all
        select from taskforge.ready r
        where r.project = $5 and r.lane = l.number and r.key is not null and r.turn <= l.turn
          and (r.until is null or r.until > $3::timestamptz)
    ) x
    limit $4
) y
