-- Rules about a project that fire and are resolved, and what became of them.

create table alert_rules (
    number integer primary key autoincrement,
    id blob not null unique,
    project integer not null references projects,
    name text not null,
    kind text not null,
    queue_id blob, -- null: every queue of the project
    queue text, -- its name when it was last looked at
    threshold real not null,
    window_seconds real not null,
    repeat_seconds real not null,
    is_paused integer not null,
    silenced_until integer,
    check_at integer, -- when the leader looks at it next; null: it is paused
    is_firing integer not null,
    since integer,
    value real,
    detail text,
    told_at integer,
    checked_at integer,
    version integer not null,
    created_at integer not null,
    updated_at integer not null,
    unique (project, name)
) strict;
create index alert_rules_due on alert_rules (check_at) where check_at is not null;
create index alert_rules_listed on alert_rules (project, number);

create table alert_history (
    number integer primary key autoincrement,
    project integer not null,
    rule blob not null,
    name text not null,
    at integer not null,
    news text not null,
    value real,
    detail text not null,
    is_silent integer not null -- nobody was told
) strict;
create index alert_history_listed on alert_history (project, number);
create index alert_history_of_rule on alert_history (rule, number);
create index alert_history_at on alert_history (at);
