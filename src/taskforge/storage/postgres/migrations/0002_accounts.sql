-- Who may do what: users, their memberships, keys and sessions, quotas, assignments, and an audit log that shows tampering.

create table taskforge.users (
    id uuid primary key,
    email text not null unique,
    name text not null,
    password text, -- argon2; null until one is set
    epoch int not null default 0, -- raised when every session and token of the user must end
    created_at timestamptz not null,
    disabled_at timestamptz
);

create table taskforge.memberships (
    organization int not null references taskforge.organizations,
    member uuid not null references taskforge.users,
    role text not null,
    created_at timestamptz not null,
    primary key (organization, member)
);
create index memberships_member on taskforge.memberships (member);

create table taskforge.invitations (
    id uuid primary key,
    organization int not null references taskforge.organizations,
    email text not null,
    role text not null,
    token bytea not null unique,
    created_at timestamptz not null,
    expires_at timestamptz not null,
    accepted_at timestamptz
);
create index invitations_organization on taskforge.invitations (organization);

-- Secrets are kept as SHA-256 of 256 random bits; the prefix is public and names the key in logs and lists.
create table taskforge.api_keys (
    id uuid primary key,
    organization int not null references taskforge.organizations,
    project int references taskforge.projects, -- null: every project of the organization
    kind text not null, -- key or worker
    name text not null,
    prefix text not null,
    secret bytea not null unique,
    permissions text not null, -- with spaces between
    created_by text not null,
    created_at timestamptz not null,
    expires_at timestamptz,
    last_used_at timestamptz,
    revoked_at timestamptz,
    rotated_to uuid -- the key that took its place
);
create index api_keys_organization on taskforge.api_keys (organization);

-- One-time and session secrets, all kept as hashes: kind is session, refresh, reset or login.
create table taskforge.tokens (
    token bytea primary key,
    kind text not null,
    member uuid not null references taskforge.users,
    organization int not null references taskforge.organizations,
    family uuid not null, -- what began with one login; a refresh token used twice ends all of it
    created_at timestamptz not null,
    expires_at timestamptz not null,
    used_at timestamptz
);
create index tokens_member on taskforge.tokens (member);
create index tokens_family on taskforge.tokens (family);
create index tokens_expiry on taskforge.tokens (expires_at);

-- Failed logins, by account and by address.
create table taskforge.throttles (
    key text primary key,
    count int not null,
    since timestamptz not null
);

-- What the servers of one store share, such as the key that signs tokens.
create table taskforge.secrets (
    name text primary key,
    value bytea not null,
    created_at timestamptz not null
);

create table taskforge.quotas (
    project int primary key references taskforge.projects,
    enqueue_per_minute bigint,
    pending_jobs bigint,
    workers bigint,
    payload_bytes_per_minute bigint
);

-- What was enqueued through servers in the present minute, where a quota limits it.
create table taskforge.quota_usage (
    project int primary key references taskforge.projects,
    since timestamptz not null,
    jobs bigint not null,
    bytes bigint not null
);

-- A queue with active assignments is served by those workers alone. `worker` is an identity, which survives restarts.
create table taskforge.assignments (
    queue int not null references taskforge.queues,
    worker uuid not null,
    project int not null references taskforge.projects,
    weight smallint not null,
    is_active boolean not null,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    primary key (queue, worker)
);
create index assignments_worker on taskforge.assignments (worker);

-- Append-only. Read and sealed in the order (xact, number) below the snapshot horizon: what lies there can only be added to behind.
create table taskforge.audit (
    xact bigint not null default pg_current_xact_id()::text::bigint,
    number bigint generated always as identity,
    at timestamptz not null,
    organization int,
    project int,
    actor text not null,
    action text not null,
    target text not null,
    before json,
    after json,
    origin text,
    request text,
    primary key (xact, number)
);
create index audit_organization on taskforge.audit (organization, number);
create index audit_at on taskforge.audit using brin (at);

-- Each seal covers the entries behind the seal before it, up to and with (last_xact, last_number). Its hash covers the hash of the
-- seal before it, so that one altered, removed or slipped-in entry breaks the chain from there on.
create table taskforge.audit_seals (
    number bigint primary key,
    last_xact bigint not null,
    last_number bigint not null,
    entries int not null,
    digest bytea not null,
    hash bytea not null,
    at timestamptz not null,
    pruned boolean not null default false
);

-- The wall: a role that sees of each table only the rows of the projects it was told, whatever a statement asks for. The owner of the
-- tables is not affected, nor is anybody else who was granted rights on them. A user who may not create roles goes without.
do $wall$
declare
    reader name := 'SCHEMA_reader';
    home name := (select n.nspname from pg_class c join pg_namespace n on n.oid = c.relnamespace where c.oid = 'taskforge.jobs'::regclass);
    -- Without inheritance: the policies would otherwise hold for the user who may take the role.
    terms text := case when current_setting('server_version_num')::int >= 160000 then 'with inherit false, set true' else '' end;
    -- A sub-select is computed once for each statement. The setting's name is in two parts because of the schema that is put in here.
    seen text := $seen$project = any ((select string_to_array(current_setting('taskforge' || '.projects', true), ',')::int[])::int[])$seen$;
    one name;
begin
    if not exists (select from pg_roles where rolname = reader) then
        begin
            execute format('create role %I nologin', reader);
        exception when duplicate_object or unique_violation then
            null; -- another database of this server was quicker
        end;
    end if;
    execute format('grant %I to current_user %s', reader, terms);
    execute format('grant usage on schema %I to %I', home, reader);
    execute format('grant select on %I.catalog, %I.jobs_now to %I', home, home, reader);
    foreach one in array array['jobs', 'ready', 'waiting', 'running', 'finished', 'executions', 'logs', 'job_tags', 'queues', 'lanes', 'workers',
        'former_workers', 'assignments', 'tallies', 'tally_deltas', 'rollups', 'rollup_deltas', 'worker_tallies', 'outbox']
    loop
        execute format('grant select on %I.%I to %I', home, one, reader);
        execute format('alter table %I.%I enable row level security', home, one);
        execute format('create policy everyone on %I.%I using (true) with check (true)', home, one);
        execute format('create policy wall on %I.%I as restrictive for select to %I using (%s)', home, one, reader, seen);
    end loop;
exception when insufficient_privilege then
    raise notice 'no wall between projects: %', sqlerrm;
end
$wall$;
