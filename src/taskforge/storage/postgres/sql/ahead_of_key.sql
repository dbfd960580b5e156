-- How many jobs of a queue go before one where keys take turns: all of some lanes, and of others
-- those of its own key with an earlier turn. No more than so many are counted.
-- $1 lanes that go first · $2 lanes where keys take turns · $3 its turn and $4 fence · $5 now · $6
-- most · $7 project · $8 its key, if it has one
select
-- include: lanes_ahead
    + (select count(*) from (
        select from taskforge.ready r
        where $8::bigint is null and r.project = $7 and r.lane = any ($2::int[]) and r.key is null
          and (r.turn, r.fence) < ($3::bigint, $4::uuid) and (r.until is null or r.until > $5::timestamptz)
        union all
        select from taskforge.ready r
        where r.project = $7 and r.lane = any ($2::int[]) and r.key = $8 and r.key is not null
          and (r.turn, r.fence) < ($3::bigint, $4::uuid) and (r.until is null or r.until > $5::timestamptz)
        limit $6) y) as ahead
