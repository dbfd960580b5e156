-- What is to be sent, to those webhooks that are active. ?1 webhook, kind and body of each, a JSON list
-- of lists · ?2 their ids, one behind the other · ?3 now
insert into webhook_deliveries (id, webhook, project, kind, body, status, attempts, tries, due_at, created_at)
select substr(?2, d.key * 16 + 1, 16), w.number, w.project, json_extract(d.value, '$[1]'), json_extract(d.value, '$[2]'),
    'pending', 0, '[]', ?3, ?3
from json_each(?1) d cross join webhooks w on w.number = json_extract(d.value, '$[0]')
where w.is_active order by d.key
