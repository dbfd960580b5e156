-- Hours and days of these scopes that are not summed up yet. ?1 scopes
select distinct step, start from rollups_due where scope in (select value from json_each(?1))
