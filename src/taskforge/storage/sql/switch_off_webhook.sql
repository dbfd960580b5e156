-- The platform sends nothing more there. $1 number · $2 why · $3 now
update taskforge.webhooks set is_active = false, disabled_reason = $2, due_at = null,
    report_at = null, version = version + 1, updated_at = $3
where number = $1 and is_active
