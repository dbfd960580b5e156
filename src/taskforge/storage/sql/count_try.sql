-- One more try; returns how many with it are in the present window. $1 key · $2 now · $3 where the
-- window begins
insert into taskforge.throttles (key, count, since) values ($1, 1, $2)
on conflict (key) do update set
    count = case when throttles.since <= $3 then 1 else throttles.count + 1 end,
    since = case when throttles.since <= $3 then $2 else throttles.since end
returning count
