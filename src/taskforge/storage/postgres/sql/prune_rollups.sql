-- Cells that are past their time and summed up, and scopes of which nothing is left.
-- $1 scopes · $2 their first minutes, $3 hours and $4 days that are kept
with old as (
    delete from taskforge.rollups r using unnest($1::int[], $2::int[], $3::int[], $4::int[]) as a (scope, minute, hour, day)
    where r.scope = a.scope
      and ((r.step = 0 and r.start < a.minute) or (r.step = 1 and r.start < a.hour) or (r.step = 2 and r.start < a.day))
      and not exists (select from taskforge.rollups_due d where d.scope = r.scope and d.step = r.step + 1
            and r.start >= d.start and r.start < d.start + case r.step when 0 then 60 else 1440 end)
), gone as (
    delete from taskforge.rollup_scopes s where s.number = any ($1::int[])
      and not exists (select from taskforge.rollups r where r.scope = s.number)
)
select 1
