-- What the slots of a schedule did, the newest first. $1 schedule · $2 before this time · $3 limit
select at, fired_at, outcome, job, detail, manual from taskforge.slots
where schedule = $1 and at < $2 order by at desc limit $3
