-- What the rates of fairness keys of a queue have left. ?1 queue · ?2 keys
select g.key, g.tokens, g.refreshed_at from json_each(?2) i cross join key_gates g on g.queue = ?1 and g.key = i.value
