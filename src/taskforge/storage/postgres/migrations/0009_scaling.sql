-- Scaling policies of queues, what the leader knows of them, what it decided, and a series of figures.

create table taskforge.scaling_policies (
    queue int primary key references taskforge.queues on delete cascade,
    id uuid not null unique,
    project int not null references taskforge.projects,
    provider text not null,
    is_paused boolean not null,
    is_dry_run boolean not null,
    policy json not null,
    state json not null, -- written by leaders alone
    state_version int not null,
    version int not null,
    created_at timestamptz not null,
    updated_at timestamptz not null
) with (fillfactor = 50);
create index scaling_policies_listed on taskforge.scaling_policies (project, queue);
create index scaling_policies_of_provider on taskforge.scaling_policies (provider);

create table taskforge.scaling_history (
    number bigint generated always as identity primary key,
    project int not null,
    queue uuid not null,
    name text not null,
    at timestamptz not null,
    news text not null,
    count int not null,
    desired int not null,
    reason text not null,
    term bigint not null,
    figures json
);
create index scaling_history_listed on taskforge.scaling_history (project, number);
create index scaling_history_of_queue on taskforge.scaling_history (queue, number);
create index scaling_history_at on taskforge.scaling_history (at);

create table taskforge.scaling_points (
    queue int not null references taskforge.queues on delete cascade,
    second bigint not null,
    desired int not null,
    actual int not null,
    coming int not null,
    draining int not null,
    length bigint not null,
    utilization_percent float8 not null,
    primary key (queue, second)
);
create index scaling_points_at on taskforge.scaling_points (second);
