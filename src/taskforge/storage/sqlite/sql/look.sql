-- Somebody looks at the file. ?1 when, by the clock that leases go by · ?2 by the wall's clock · ?3 how
-- soon the next look is promised, or null: as before
update looks set at = ?1, wall = ?2, rhythm = coalesce(?3, rhythm)
