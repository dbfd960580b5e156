-- Ready jobs that some worker skipped, and since when their arguments fitted no handler. ?1 behind
-- this fence · ?2 limit
select fence, lane, skipped, misfit_at from ready where skipped is not null and fence > ?1 order by fence limit ?2
