-- Jobs in ready whose time to start by has passed, and whether that was their deadline. ?1 now · ?2
-- limit
select p.fence, coalesce((select j.deadline <= ?1 from jobs j where j.id = p.job), 0) from ready p where p.until <= ?1 order by p.until limit ?2
