-- So many deliveries of webhooks are due at once. ?1 webhook and how many, a JSON list of lists · ?2 now
update webhooks set waiting = waiting + json_extract(d.value, '$[1]'),
    due_at = case when held_until is not null and held_until > ?2 then held_until
        when due_at is null or due_at > ?2 then ?2 else due_at end
from json_each(?1) d
where number = json_extract(d.value, '$[0]') and is_active
