-- Behind the jobs that a claim took, one row for each lane (and key) that it asked, without a fence:
-- the turn of the first job that it left there, as far as it looked; none where it saw the end.
union all
select null, l.number, null, null, null, null, null, null, null, null,
    coalesce(min(c.turn) filter (where c.turn > coalesce(m.turn, 0)), case when count(c.turn) >= l.most then max(c.turn) end),
    null, null, null, l.key
from lane l
left join candidate c on c.number = l.number and coalesce(c.key, 0) = coalesce(l.key, 0)
left join (select lane, key, max(turn) as turn from moved group by lane, key) m
    on m.lane = l.number and coalesce(m.key, 0) = coalesce(l.key, 0)
group by l.number, l.key, l.most, m.turn
