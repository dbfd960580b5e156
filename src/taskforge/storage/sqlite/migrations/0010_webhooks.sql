-- Webhooks: where events of a project are sent, what is to be sent, and up to where events were looked at.

create table webhooks (
    number integer primary key autoincrement,
    id blob not null unique,
    project integer not null references projects,
    organization integer not null,
    name text not null,
    url text not null,
    description text not null,
    kinds text not null, -- with spaces between
    queues text not null, -- ids with spaces between; none: every queue
    report_seconds real not null,
    report_at integer, -- when the next report is due; null: none is asked for
    is_active integer not null,
    sees_cluster integer not null, -- it is sent what is no project's: of nodes, and of who leads
    disabled_reason text,
    since integer not null, -- it has been sent events
    secret blob not null, -- as it is: requests are signed with it
    old_secret blob, -- signs too, until
    old_secret_until integer,
    waiting integer not null, -- deliveries that are not over
    due_at integer, -- when the sender looks at it: its first delivery is due, and it is not held back; null: nothing waits, or it is off
    held_until integer, -- nothing is sent before
    failures integer not null, -- in a row
    failing_since integer,
    delivered_at integer,
    version integer not null,
    created_at integer not null,
    updated_at integer not null,
    unique (project, name)
) strict;
create index webhooks_listed on webhooks (project, number);
create index webhooks_active on webhooks (project) where is_active;
create index webhooks_of_cluster on webhooks (number) where is_active and sees_cluster;
create index webhooks_due on webhooks (due_at) where due_at is not null;
create index webhooks_reporting on webhooks (report_at) where report_at is not null;

create table webhook_deliveries (
    number integer primary key autoincrement,
    id blob not null unique, -- what receivers see of it, the same at every try
    webhook integer not null,
    project integer not null,
    kind text not null,
    body text not null,
    status text not null,
    attempts integer not null,
    tries text not null, -- the last ones, as JSON
    due_at integer, -- when it is sent next; null: it is over
    created_at integer not null,
    ended_at integer
) strict;
create index webhook_deliveries_due on webhook_deliveries (webhook, due_at, number) where due_at is not null;
create index webhook_deliveries_listed on webhook_deliveries (webhook, number);
create index webhook_deliveries_ended on webhook_deliveries (webhook, number) where ended_at is not null;
create index webhook_deliveries_created on webhook_deliveries (created_at);

-- Webhooks that are gone, until their deliveries are, too.
create table removed_webhooks (webhook integer primary key) strict;

-- One row: behind which event the next ones are looked at; null: no webhook is active, and none is missed.
create table webhook_cursor (one integer primary key check (one = 1), cursor text, looks integer not null) strict;
insert into webhook_cursor (one, cursor, looks) values (1, null, 0);
