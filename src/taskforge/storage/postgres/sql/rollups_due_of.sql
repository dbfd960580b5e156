-- Hours and days of these scopes that are not summed up yet. $1 scopes
select distinct step, start from taskforge.rollups_due where scope = any ($1::int[])
