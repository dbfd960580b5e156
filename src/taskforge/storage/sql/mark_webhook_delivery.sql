-- What came of a try, unless somebody had the delivery tried anew meanwhile. $1 number · $2 attempts
-- before it · $3 status · $4 the tries, JSON · $5 when it is due again, or null · $6 when it ended, or
-- null
update taskforge.webhook_deliveries set attempts = $2 + 1, status = $3, tries = $4, due_at = $5,
    ended_at = $6
where number = $1 and attempts = $2 and due_at is not null
