-- The state of a queue's rate limit. ?1 queue · ?2 tokens · ?3 at · ?4 rate · ?5 judged at · ?6
-- behind
insert into gates (queue, tokens, refreshed_at, rate, judged_at, behind) values (?1, ?2, ?3, ?4, ?5, ?6)
on conflict (queue) do update set tokens = excluded.tokens, refreshed_at = excluded.refreshed_at, rate = excluded.rate,
    judged_at = excluded.judged_at, behind = excluded.behind
