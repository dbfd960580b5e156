-- Rules about a project that fire and are resolved, and what became of them.

create table taskforge.alert_rules (
    number int generated always as identity primary key,
    id uuid not null unique,
    project int not null references taskforge.projects,
    name text not null,
    kind text not null,
    queue_id uuid, -- null: every queue of the project
    queue text, -- its name when it was last looked at
    threshold float8 not null,
    window_seconds float8 not null,
    repeat_seconds float8 not null,
    is_paused boolean not null,
    silenced_until timestamptz,
    check_at timestamptz, -- when the leader looks at it next; null: it is paused
    is_firing boolean not null,
    since timestamptz,
    value float8,
    detail text,
    told_at timestamptz,
    checked_at timestamptz,
    version int not null,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    unique (project, name)
) with (fillfactor = 50);
create index alert_rules_due on taskforge.alert_rules (check_at) where check_at is not null;
create index alert_rules_listed on taskforge.alert_rules (project, number);

create table taskforge.alert_history (
    number bigint generated always as identity primary key,
    project int not null,
    rule uuid not null,
    name text not null,
    at timestamptz not null,
    news text not null,
    value float8,
    detail text not null,
    is_silent boolean not null -- nobody was told
);
create index alert_history_listed on taskforge.alert_history (project, number);
create index alert_history_of_rule on taskforge.alert_history (rule, number);
create index alert_history_at on taskforge.alert_history (at);
