-- Limiter state of fairness keys, one row for each key that used its rate lately.
create table taskforge.key_gates (
    queue int not null references taskforge.queues,
    key bigint not null,
    tokens double precision not null,
    refreshed_at double precision not null,
    primary key (queue, key)
);
create index key_gates_refreshed on taskforge.key_gates (queue, refreshed_at);
