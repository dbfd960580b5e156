-- Hours and days that are over, whose parts are summed up.
-- ?1 the step · ?2 the last start · ?3 limit
select d.scope, d.step, d.start, d.project from rollups_due d
where d.step = ?1 and d.start <= ?2
  and (?1 = 1 or not exists (select 1 from rollups_due h where h.scope = d.scope and h.step = 1 and h.start >= d.start
        and h.start < d.start + 1440))
order by d.start limit ?3
