-- Log lines of jobs that go. ?1 job ids, one behind the other · ?2 a list as long · ?3 limit
delete from logs where (job, epoch, number) in (
    select l.job, l.epoch, l.number from json_each(?2) i cross join logs l on l.job = substr(?1, i.key * 16 + 1, 16) limit ?3
)
