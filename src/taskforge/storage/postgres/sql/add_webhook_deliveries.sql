-- What is to be sent, to those webhooks that are active. $1 webhook, kind and body of each, a JSON list
-- of lists · $2 their ids, one behind the other · $3 now
insert into taskforge.webhook_deliveries (id, webhook, project, kind, body, status, attempts, tries, due_at, created_at)
select encode(substr($2::bytea, ((d.place - 1) * 16 + 1)::int, 16), 'hex')::uuid, w.number, w.project, d.value ->> 1, d.value ->> 2,
    'pending', 0, '[]', $3::timestamptz, $3
from jsonb_array_elements($1::jsonb) with ordinality d (value, place)
join taskforge.webhooks w on w.number = (d.value ->> 0)::int and w.is_active
order by d.place
