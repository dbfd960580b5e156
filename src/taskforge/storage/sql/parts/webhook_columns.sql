select number, id, project, organization, name, url, description, kinds, queues, report_seconds,
    is_active, disabled_reason, since, waiting, failures, failing_since, delivered_at,
    old_secret_until, version, created_at, updated_at
from taskforge.webhooks
