-- Count jobs against a minute, if there is room for all of them; returns a row if there was. $1
-- project · $2 minute · $3 jobs · $4 bytes · $5 most jobs in a minute · $6 most bytes
insert into taskforge.quota_usage as u (project, since, jobs, bytes) values ($1, $2, $3, $4)
on conflict (project) do update set since = $2,
    jobs = case when u.since = $2 then u.jobs else 0 end + $3,
    bytes = case when u.since = $2 then u.bytes else 0 end + $4
where u.since <> $2 or (u.jobs + $3 <= $5 and u.bytes + $4 <= $6)
returning jobs
