-- Every tag of these jobs, as the key of its row. ?1 job ids, one behind the other · ?2 a list as
-- long
select j.project, t.value, j.id
from json_each(?2) i cross join jobs j on j.id = substr(?1, i.key * 16 + 1, 16) cross join json_each(j.tags) t
where j.tags is not null
