-- Whether any webhook is active.
select number from taskforge.webhooks where is_active limit 1
