-- The processes that share a store, which of them leads, and the schedules that the leader fires.

create table nodes (
    id blob primary key,
    name text not null,
    roles text not null, -- with spaces between
    is_server integer not null,
    address text not null,
    host text not null,
    pid integer not null,
    version text not null,
    beat_seconds real not null, -- how often it says that it is there
    joined_at integer not null,
    seen_at integer not null,
    upkeep text
) strict;

-- One row. The term only rises; the beat is raised by the leader for as long as it leads.
create table leadership (
    one integer primary key check (one = 1),
    term integer not null,
    beat integer not null,
    writes integer not null,
    node blob, -- null: the last leader resigned
    lease_seconds real not null,
    since integer not null
) strict;
insert into leadership (one, term, beat, writes, lease_seconds, since)
values (1, 0, 0, 0, 0, cast(strftime('%s', 'now') as integer) * 1000000);

create table schedules (
    number integer primary key autoincrement,
    id blob not null unique,
    project integer not null references projects,
    name text not null,
    description text not null,
    timing text not null,
    job text not null,
    is_paused integer not null,
    declared_by text, -- the application whose code has it
    next_at integer, -- the next slot; null: paused, or there is none any more
    due_at integer, -- when the leader looks at that one: with its jitter, or again
    last_slot integer,
    last_job blob,
    version integer not null,
    created_at integer not null,
    updated_at integer not null,
    unique (project, name)
) strict;
create index schedules_due on schedules (due_at, project) where due_at is not null;
create index schedules_listed on schedules (project, number);

-- What each slot did, once for each. The key is what a slot can be fired by only once.
create table slots (
    schedule integer not null,
    at integer not null,
    project integer not null,
    fired_at integer not null,
    outcome text not null,
    job blob,
    detail text,
    manual integer not null,
    term integer, -- of the leader who fired it
    primary key (schedule, at)
) strict, without rowid;
create index slots_fired on slots (fired_at);
