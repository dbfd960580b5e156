-- Who may do what: users, their memberships, keys and sessions, quotas, assignments, and an audit log that shows tampering.

create table users (
    id blob primary key,
    email text not null unique,
    name text not null,
    password text, -- argon2; null until one is set
    epoch integer not null default 0, -- raised when every session and token of the user must end
    created_at integer not null,
    disabled_at integer
) strict;

create table memberships (
    organization integer not null references organizations,
    member blob not null references users,
    role text not null,
    created_at integer not null,
    primary key (organization, member)
) strict;
create index memberships_member on memberships (member);

create table invitations (
    id blob primary key,
    organization integer not null references organizations,
    email text not null,
    role text not null,
    token blob not null unique,
    created_at integer not null,
    expires_at integer not null,
    accepted_at integer
) strict;
create index invitations_organization on invitations (organization);

-- Secrets are kept as SHA-256 of 256 random bits; the prefix is public and names the key in logs and lists.
create table api_keys (
    id blob primary key,
    organization integer not null references organizations,
    project integer references projects, -- null: every project of the organization
    kind text not null, -- key or worker
    name text not null,
    prefix text not null,
    secret blob not null unique,
    permissions text not null, -- with spaces between
    created_by text not null,
    created_at integer not null,
    expires_at integer,
    last_used_at integer,
    revoked_at integer,
    rotated_to blob -- the key that took its place
) strict;
create index api_keys_organization on api_keys (organization);

-- One-time and session secrets, all kept as hashes: kind is session, refresh, reset or login.
create table tokens (
    token blob primary key,
    kind text not null,
    member blob not null references users,
    organization integer not null references organizations,
    family blob not null, -- what began with one login; a refresh token used twice ends all of it
    created_at integer not null,
    expires_at integer not null,
    used_at integer
) strict;
create index tokens_member on tokens (member);
create index tokens_family on tokens (family);
create index tokens_expiry on tokens (expires_at);

-- Failed logins, by account and by address.
create table throttles (
    key text primary key,
    count integer not null,
    since integer not null
) strict;

-- What the servers of one store share, such as the key that signs tokens.
create table secrets (
    name text primary key,
    value blob not null,
    created_at integer not null
) strict;

-- What an organization may have in all its projects, set by the platform's owner; null is without limit.
create table ceilings (
    organization integer primary key references organizations,
    projects integer,
    queues integer,
    pending_jobs integer,
    workers integer,
    enqueue_per_minute integer,
    bytes_per_minute integer,
    stored_bytes integer,
    streams integer,
    -- what servers have taken of the present minute, each a slice at a time
    since integer,
    taken_jobs integer not null default 0,
    taken_bytes integer not null default 0,
    -- what its rows took at the leader's last count, what servers have reserved since the one that is
    -- under way began, and before that since the last
    counted_bytes integer not null default 0,
    reserved_bytes integer not null default 0,
    reserved_before integer not null default 0
) strict;

create table quotas (
    project integer primary key references projects,
    enqueue_per_minute integer,
    pending_jobs integer,
    workers integer,
    payload_bytes_per_minute integer,
    schedules integer
) strict;

-- What was enqueued through servers in the present minute, where a quota limits it.
create table quota_usage (
    project integer primary key references projects,
    since integer not null,
    jobs integer not null,
    bytes integer not null
) strict;

-- A queue with active assignments is served by those workers alone. `worker` is an identity, which survives restarts.
create table assignments (
    queue integer not null references queues,
    worker blob not null,
    project integer not null references projects,
    weight integer not null,
    is_active integer not null,
    created_at integer not null,
    updated_at integer not null,
    primary key (queue, worker)
) strict;
create index assignments_worker on assignments (worker);

-- A queue with what else decides who may take its jobs: the workers assigned to it, one behind the other, and whether others send their dead
-- letters there.
create view cards as
select q.number, q.id, q.project, q.name, q.description, q.priority, q.settings, q.is_active, q.version, q.created_at, q.updated_at,
    q.deleted_at, q.stamp,
    (select group_concat(hex(a.worker), '') from assignments a where a.queue = q.number and a.is_active) as servants,
    exists (
        select 1 from queues o
        where o.project = q.project
          and json_extract(o.settings, '$.dead_letter_queue_id') = lower(
            substr(hex(q.id), 1, 8) || '-' || substr(hex(q.id), 9, 4) || '-' || substr(hex(q.id), 13, 4) || '-' || substr(hex(q.id), 17, 4)
            || '-' || substr(hex(q.id), 21))
          and json_extract(o.settings, '$.dead_letter_queue_id') is not null and o.deleted_at is null
    ) as buries
from queues q;

-- Append-only. Read and sealed in the order of numbers, which is that of commits.
create table audit (
    number integer primary key autoincrement,
    xact integer not null default 0, -- the other engine's order of commits; here numbers are that
    at integer not null,
    organization integer,
    organization_number integer, -- counts the organization's own entries: what its members see
    project integer,
    actor text not null,
    action text not null,
    target text not null,
    before text,
    after text,
    origin text,
    request text
) strict;
create index audit_organization on audit (organization, organization_number);

-- How many entries each organization has had.
create table audit_numbers (
    organization integer primary key,
    last integer not null
) strict;
create trigger number_audit after insert on audit
when new.organization is not null and new.organization_number is null
begin
    insert into audit_numbers values (new.organization, 1) on conflict (organization) do update set last = last + 1;
    update audit set organization_number = (select last from audit_numbers where organization = new.organization)
    where number = new.number;
end;

-- Each seal covers the entries behind the seal before it, up to and with last_number. Its hash covers the hash of the
-- seal before it, so that one altered, removed or slipped-in entry breaks the chain from there on.
create table audit_seals (
    number integer primary key,
    last_xact integer not null,
    last_number integer not null,
    entries integer not null,
    digest blob not null,
    previous blob not null, -- the hash of the seal before it
    pruned_to integer not null, -- the entries of this seal and of all before it are gone
    key text not null, -- the id of the key that made the hash; '' is none
    hash blob not null,
    handover blob, -- where the key changes: the hash by the key before
    at integer not null
) strict;
