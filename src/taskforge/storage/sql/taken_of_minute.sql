-- What is taken of an organization's minute; no row if another minute has begun. $1 organization · $2
-- minute
select taken_jobs, taken_bytes from taskforge.ceilings where organization = $1 and since = $2
