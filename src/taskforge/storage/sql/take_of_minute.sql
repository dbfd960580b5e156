-- Take jobs and bytes of an organization's minute, if there is room for all of them; returns a row if
-- there was. $1 organization · $2 minute · $3 jobs · $4 bytes · $5 most jobs in a minute · $6 most
-- bytes
update taskforge.ceilings set since = $2,
    taken_jobs = case when since = $2 then taken_jobs else 0 end + $3,
    taken_bytes = case when since = $2 then taken_bytes else 0 end + $4
where organization = $1 and (since is null or since <> $2 or (taken_jobs + $3 <= $5 and taken_bytes + $4 <= $6))
returning taken_jobs
