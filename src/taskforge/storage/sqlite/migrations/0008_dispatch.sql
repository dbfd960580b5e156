-- Load balancing: which queues place their jobs on workers, and where each of them goes on.
create index queues_balanced on queues (number) where json_extract(settings, '$.load_balancing') is not null and deleted_at is null;

create table dispatch_positions (
    queue integer primary key references queues on delete cascade,
    position text not null -- a Position, as JSON
) strict;
