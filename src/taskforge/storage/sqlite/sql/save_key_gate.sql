-- ?1 queue · ?2 key · ?3 tokens · ?4 refreshed at
insert into key_gates (queue, key, tokens, refreshed_at) values (?1, ?2, ?3, ?4)
on conflict (queue, key) do update set tokens = excluded.tokens, refreshed_at = excluded.refreshed_at
