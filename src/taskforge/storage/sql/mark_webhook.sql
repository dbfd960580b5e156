-- How a webhook fares after some tries. $1 number · $2 failures in a row · $3 since when, or null · $4
-- until when it is held back, or null · $5 when something was delivered, or null
update taskforge.webhooks set failures = $2, failing_since = $3, held_until = $4,
    delivered_at = coalesce($5, delivered_at)
where number = $1
