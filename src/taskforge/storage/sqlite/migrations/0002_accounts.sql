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

create table quotas (
    project integer primary key references projects,
    enqueue_per_minute integer,
    pending_jobs integer,
    workers integer,
    payload_bytes_per_minute integer
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

-- Append-only. Read and sealed in the order of numbers, which is that of commits.
create table audit (
    number integer primary key autoincrement,
    xact integer not null default 0, -- the other engine's order of commits; here numbers are that
    at integer not null,
    organization integer,
    project integer,
    actor text not null,
    action text not null,
    target text not null,
    before text,
    after text,
    origin text,
    request text
) strict;
create index audit_organization on audit (organization, number);

-- Each seal covers the entries behind the seal before it, up to and with last_number. Its hash covers the hash of the
-- seal before it, so that one altered, removed or slipped-in entry breaks the chain from there on.
create table audit_seals (
    number integer primary key,
    last_xact integer not null,
    last_number integer not null,
    entries integer not null,
    digest blob not null,
    hash blob not null,
    at integer not null,
    pruned integer not null default 0
) strict;
