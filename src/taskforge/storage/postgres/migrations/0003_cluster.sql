-- The processes that share a store, which of them leads, and the schedules that the leader fires.

create table taskforge.nodes (
    id uuid primary key,
    name text not null,
    roles text not null, -- with spaces between
    is_server boolean not null,
    address text not null,
    host text not null,
    pid int not null,
    version text not null,
    beat_seconds float8 not null, -- how often it says that it is there
    joined_at timestamptz not null,
    seen_at timestamptz not null,
    upkeep json
);

-- One row. The term only rises; the beat is raised by the leader for as long as it leads. `writes` is raised by each of its writes,
-- which locks the row: no other term begins before the write is over, and none is accepted after.
create table taskforge.leadership (
    one int primary key check (one = 1),
    term bigint not null,
    beat bigint not null,
    writes bigint not null,
    node uuid, -- null: the last leader resigned
    lease_seconds float8 not null,
    since timestamptz not null
) with (fillfactor = 50);
insert into taskforge.leadership (one, term, beat, writes, lease_seconds, since) values (1, 0, 0, 0, 0, now());

create table taskforge.schedules (
    number int generated always as identity primary key,
    id uuid not null unique,
    project int not null references taskforge.projects,
    name text not null,
    description text not null,
    timing json not null,
    job json not null,
    is_paused boolean not null,
    declared_by text, -- the application whose code has it
    next_at timestamptz, -- the next slot; null: paused, or there is none any more
    due_at timestamptz, -- when the leader looks at that one: with its jitter, or again
    last_slot timestamptz,
    last_job uuid,
    version int not null,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    unique (project, name)
) with (fillfactor = 70);
create index schedules_due on taskforge.schedules (due_at, project) where due_at is not null;
create index schedules_listed on taskforge.schedules (project, number);

-- What each slot did, once for each. The key is what a slot can be fired by only once.
create table taskforge.slots (
    schedule int not null,
    at timestamptz not null,
    project int not null,
    fired_at timestamptz not null,
    outcome text not null,
    job uuid,
    detail text,
    manual boolean not null,
    term bigint, -- of the leader who fired it
    primary key (schedule, at)
);
create index slots_fired on taskforge.slots (fired_at);
