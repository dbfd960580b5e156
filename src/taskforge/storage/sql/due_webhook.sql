-- When a webhook is due, from its deliveries; a statement of its own behind one that holds the row,
-- so that it sees what others have added. $1 number
update taskforge.webhooks set
    waiting = (select count(*) from taskforge.webhook_deliveries d
        where d.webhook = $1 and d.due_at is not null),
    due_at = case when is_active then (
        select case when held_until is not null and min(d.due_at) < held_until then held_until
            else min(d.due_at) end
        from taskforge.webhook_deliveries d where d.webhook = $1 and d.due_at is not null) end
where number = $1
