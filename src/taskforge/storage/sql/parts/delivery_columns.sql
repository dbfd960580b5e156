select number, id, webhook, project, kind, body, status, attempts, tries, due_at, created_at, ended_at
from taskforge.webhook_deliveries
