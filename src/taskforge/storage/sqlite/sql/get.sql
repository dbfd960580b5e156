-- Jobs as readers see them, in the order asked. ?1 ids, one behind the other · ?2 a list as long
-- A job that ran and then ended while it waited has no epoch in its finished row; the highest in executions tells how often it was claimed.
select n.*, case when n.epoch = 0 then coalesce((select max(e.epoch) from executions e where e.job = n.id), 0) else n.epoch end as claims
from json_each(?2) i cross join jobs_now n on n.id = substr(?1, i.key * 16 + 1, 16)
where n.status is not null
