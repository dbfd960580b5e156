-- Workers that were not yet offered all that is parked for them. ?1 now by the clock that leases go by
select incarnation, project, types from workers where is_new and lease_until > ?1
