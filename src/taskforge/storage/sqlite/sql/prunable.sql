-- Finished jobs past retention, oldest first. ?1 queue · ?2 ids below this were made before ?3, the
-- time before which they must have finished ·
-- ?4 limit
select job from finished where queue = ?1 and job < ?2 and finished_at < ?3 order by job limit ?4
