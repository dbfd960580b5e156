-- What is to be sent, if its webhook is active. $1 id · $2 webhook · $3 kind · $4 body · $5 now
insert into taskforge.webhook_deliveries (id, webhook, project, kind, body, status, attempts, tries,
    due_at, created_at)
select $1, number, project, $3, $4, 'pending', 0, '[]', $5, $5
from taskforge.webhooks where number = $2 and is_active returning number
