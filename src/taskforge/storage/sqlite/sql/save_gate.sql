-- The state of a queue's rate limit. ?1 queue · ?2 tokens · ?3 at
insert into gates (queue, tokens, refreshed_at) values (?1, ?2, ?3)
on conflict (queue) do update set tokens = excluded.tokens, refreshed_at = excluded.refreshed_at
