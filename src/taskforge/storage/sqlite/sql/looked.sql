-- Somebody looked at the file. ?1 when, by the clock that leases go by · ?2 by the wall's clock
update looks set at = ?1, wall = ?2
