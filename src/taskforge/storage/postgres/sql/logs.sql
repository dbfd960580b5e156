-- $1 job · $2 projects · $3 least level · $4 after this line · $5 limit · $6 offset
select number, epoch, level, message, metadata, logged_at from taskforge.logs
where job = $1 and project = any ($2::int[]) and level >= $3 and number > $4 order by epoch, number limit $5 offset $6
