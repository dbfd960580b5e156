-- Until when a worker has its lease, and whose it is. ?1 incarnation
select lease_until, project from workers where incarnation = ?1
