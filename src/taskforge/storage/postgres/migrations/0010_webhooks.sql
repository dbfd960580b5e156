-- Webhooks: where events of a project are sent, what is to be sent, and up to where events were looked at.

create table taskforge.webhooks (
    number int generated always as identity primary key,
    id uuid not null unique,
    project int not null references taskforge.projects,
    organization int not null,
    name text not null,
    url text not null,
    description text not null,
    kinds text not null, -- with spaces between
    queues text not null, -- ids with spaces between; none: every queue
    report_seconds float8 not null,
    report_at timestamptz, -- when the next report is due; null: none is asked for
    is_active boolean not null,
    sees_cluster boolean not null, -- it is sent what is no project's: of nodes, and of who leads
    disabled_reason text,
    since timestamptz not null, -- it has been sent events
    secret bytea not null, -- as it is: requests are signed with it
    old_secret bytea, -- signs too, until
    old_secret_until timestamptz,
    waiting int not null, -- deliveries that are not over
    due_at timestamptz, -- when the sender looks at it: its first delivery is due, and it is not held back; null: nothing waits, or it is off
    held_until timestamptz, -- nothing is sent before
    failures int not null, -- in a row
    failing_since timestamptz,
    delivered_at timestamptz,
    version int not null,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    unique (project, name)
) with (fillfactor = 50);
create index webhooks_listed on taskforge.webhooks (project, number);
create index webhooks_active on taskforge.webhooks (project) where is_active;
create index webhooks_of_cluster on taskforge.webhooks (number) where is_active and sees_cluster;
create index webhooks_due on taskforge.webhooks (due_at) where due_at is not null;
create index webhooks_reporting on taskforge.webhooks (report_at) where report_at is not null;

create table taskforge.webhook_deliveries (
    number bigint generated always as identity primary key,
    id uuid not null unique, -- what receivers see of it, the same at every try
    webhook int not null,
    project int not null,
    kind text not null,
    body text not null,
    status text not null,
    attempts int not null,
    tries text not null, -- the last ones, as JSON
    due_at timestamptz, -- when it is sent next; null: it is over
    created_at timestamptz not null,
    ended_at timestamptz
) with (fillfactor = 70);
create index webhook_deliveries_due on taskforge.webhook_deliveries (webhook, due_at, number) where due_at is not null;
create index webhook_deliveries_listed on taskforge.webhook_deliveries (webhook, number);
create index webhook_deliveries_ended on taskforge.webhook_deliveries (webhook, number) where ended_at is not null;
create index webhook_deliveries_created on taskforge.webhook_deliveries (created_at);

-- Webhooks that are gone, until their deliveries are, too.
create table taskforge.removed_webhooks (webhook int primary key);

-- One row: behind which event the next ones are looked at; null: no webhook is active, and none is missed.
create table taskforge.webhook_cursor (one int primary key check (one = 1), cursor text, looks bigint not null);
insert into taskforge.webhook_cursor (one, cursor, looks) values (1, null, 0);
