-- So many deliveries of a webhook are due at once. $1 number · $2 now · $3 how many
update taskforge.webhooks set waiting = waiting + $3,
    due_at = case when held_until is not null and held_until > $2 then held_until
        when due_at is null or due_at > $2 then $2 else due_at end
where number = $1 and is_active
