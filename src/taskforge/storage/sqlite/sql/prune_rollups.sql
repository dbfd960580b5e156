-- Cells that are past their time and summed up. ?1 scope · ?2 step · ?3 the first start that is kept · ?4 minutes of the wider step
delete from rollups where scope = ?1 and step = ?2 and start < ?3
    and not exists (select 1 from rollups_due d where d.scope = ?1 and d.step = ?2 + 1 and rollups.start >= d.start
        and rollups.start < d.start + ?4)
