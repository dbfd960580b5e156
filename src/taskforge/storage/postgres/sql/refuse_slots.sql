-- Slots whose job was not taken by its queue. $1 schedules · $2 slots · $3 why
update taskforge.slots s set outcome = 'refused', job = null, detail = x.detail
from unnest($1::int[], $2::timestamptz[], $3::text[]) as x (schedule, at, detail)
where s.schedule = x.schedule and s.at = x.at
