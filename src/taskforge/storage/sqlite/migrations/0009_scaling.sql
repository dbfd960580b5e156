-- Scaling policies of queues, what the leader knows of them, what it decided, and a series of figures.

create table scaling_policies (
    queue integer primary key references queues on delete cascade,
    id blob not null unique,
    project integer not null references projects,
    provider text not null,
    is_paused integer not null,
    is_dry_run integer not null,
    policy text not null,
    state text not null, -- written by leaders alone
    state_version integer not null,
    version integer not null,
    created_at integer not null,
    updated_at integer not null
) strict;
create index scaling_policies_listed on scaling_policies (project, queue);
create index scaling_policies_of_provider on scaling_policies (provider);

create table scaling_history (
    number integer primary key autoincrement,
    project integer not null,
    queue blob not null,
    name text not null,
    at integer not null,
    news text not null,
    count integer not null,
    desired integer not null,
    reason text not null,
    term integer not null,
    figures text
) strict;
create index scaling_history_listed on scaling_history (project, number);
create index scaling_history_of_queue on scaling_history (queue, number);
create index scaling_history_at on scaling_history (at);

create table scaling_points (
    queue integer not null references queues on delete cascade,
    second integer not null,
    desired integer not null,
    actual integer not null,
    coming integer not null,
    draining integer not null,
    length integer not null,
    utilization_percent real not null,
    primary key (queue, second)
) strict;
create index scaling_points_at on scaling_points (second);
