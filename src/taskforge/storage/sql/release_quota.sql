-- Take back what was counted in a minute, if it is still the present one. $1 project · $2 minute ·
-- $3 jobs · $4 bytes
update taskforge.quota_usage set jobs = jobs - $3, bytes = bytes - $4
where project = $1 and since = $2
