-- A scope of which nothing is left. ?1 its number
delete from rollup_scopes where number = ?1 and not exists (select 1 from rollups where scope = ?1)
