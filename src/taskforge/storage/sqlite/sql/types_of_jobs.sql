-- The types of jobs, in the order asked. ?1 ids, one behind the other · ?2 a list as long
select j.job_type from json_each(?2) i cross join jobs j on j.id = substr(?1, i.key * 16 + 1, 16)
order by i.key
