-- So many deliveries of webhooks are due at once. $1 webhook and how many, a JSON list of lists · $2 now
update taskforge.webhooks w set waiting = w.waiting + (d.value ->> 1)::int,
    due_at = case when w.held_until is not null and w.held_until > $2 then w.held_until
        when w.due_at is null or w.due_at > $2 then $2 else w.due_at end
from jsonb_array_elements($1::jsonb) d (value)
where w.number = (d.value ->> 0)::int and w.is_active
