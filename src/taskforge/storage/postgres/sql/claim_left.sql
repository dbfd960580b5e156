-- Behind the jobs that a claim took, one row for each lane that it asked, without a fence: the turn
-- of the first job that it left there, as far as it looked; none where it saw the lane's end.
union all
select null, l.number, null, null, null, null, null, null, null, null,
    coalesce(min(c.turn) filter (where c.turn > coalesce(m.turn, 0)), case when count(c.turn) >= l.most then max(c.turn) end),
    null, null, null
from lane l
left join candidate c on c.number = l.number
left join (select lane, max(turn) as turn from moved group by lane) m on m.lane = l.number
group by l.number, l.most, m.turn
