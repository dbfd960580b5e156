-- Limiter state of fairness keys, one row for each key that used its rate lately.
create table key_gates (
    queue integer not null references queues,
    key integer not null,
    tokens real not null,
    refreshed_at real not null,
    primary key (queue, key)
) strict, without rowid;
create index key_gates_refreshed on key_gates (queue, refreshed_at);
