-- Lives that no history can name any more. ?1 those that ended before this · ?2 limit
delete from former_workers where incarnation in (select incarnation from former_workers where ended_at < ?1 limit ?2)
