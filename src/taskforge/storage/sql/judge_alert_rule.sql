-- What an alert rule says now, if it was not edited since it was read. $1 number · $2 the version
-- that was read · $3 the name of its queue, or null · $4 whether it fires · $5 since when · $6 value ·
-- $7 detail · $8 when it was last told of · $9 now · $10 when it is due again
update taskforge.alert_rules set queue = $3, is_firing = $4, since = $5, value = $6, detail = $7,
    told_at = $8, checked_at = $9, check_at = $10
where number = $1 and version = $2
