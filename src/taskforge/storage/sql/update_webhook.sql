-- An edit of a webhook, if it has the version that was read. $1 number · $2 that version · $3 name · $4
-- url · $5 description · $6 kinds and $7 queues, with spaces between · $8 seconds between reports · $9
-- when the next is due, or null · $10 whether it is active · $11 why it was switched off, or null · $12
-- since when it is sent events · $13 failures in a row · $14 since when, or null · $15 now
update taskforge.webhooks set name = $3, url = $4, description = $5, kinds = $6, queues = $7,
    report_seconds = $8, report_at = $9, is_active = $10, disabled_reason = $11, since = $12,
    failures = $13, failing_since = $14,
    held_until = case when $13 = 0 then null else held_until end, version = version + 1,
    updated_at = $15
where number = $1 and version = $2
