-- Load balancing: which queues place their jobs on workers, and where each of them goes on.
create index queues_balanced on taskforge.queues (number) where settings ->> 'load_balancing' is not null and deleted_at is null;

create table taskforge.dispatch_positions (
    queue int primary key references taskforge.queues on delete cascade,
    position text not null -- a Position, as JSON
);
