-- ?1 project
select 1 from projects where number = ?1
