-- Who holds these keys just now. ?1 keys · ?2 project · ?3 scope · ?4 now
select k.key, k.job, k.body
from json_each(?1) i cross join keys k on k.project = ?2 and k.scope = ?3 and k.key = i.value
where k.until is null or k.until > ?4
