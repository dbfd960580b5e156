-- Where the balancing of a queue goes on. ?1 queue · ?2 position, as JSON
insert into dispatch_positions (queue, position) values (?1, ?2)
on conflict (queue) do update set position = excluded.position where position <> excluded.position
