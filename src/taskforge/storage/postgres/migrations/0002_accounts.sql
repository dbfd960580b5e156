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

-- What an organization may have in all its projects, set by the platform's owner; null is without limit.
create table taskforge.ceilings (
    organization int primary key references taskforge.organizations,
    projects bigint,
    queues bigint,
    pending_jobs bigint,
    workers bigint,
    enqueue_per_minute bigint,
    bytes_per_minute bigint,
    stored_bytes bigint,
    streams bigint,
    -- what servers have taken of the present minute, each a slice at a time
    since timestamptz,
    taken_jobs bigint not null default 0,
    taken_bytes bigint not null default 0,
    -- what its rows took at the leader's last count, what servers have reserved since the one that is
    -- under way began, and before that since the last
    counted_bytes bigint not null default 0,
    reserved_bytes bigint not null default 0,
    reserved_before bigint not null default 0
);

create table taskforge.quotas (
    project int primary key references taskforge.projects,
    enqueue_per_minute bigint,
    pending_jobs bigint,
    workers bigint,
    payload_bytes_per_minute bigint,
    schedules bigint
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

-- A queue with what else decides who may take its jobs, and the version of its project's catalog as of now.
create view taskforge.cards as
select q.number, q.id, q.project, q.name, q.description, q.priority, q.settings::text as settings, q.is_active, q.version, q.created_at,
    q.updated_at, q.deleted_at, q.stamp,
    array(select a.worker from taskforge.assignments a where a.queue = q.number and a.is_active) as servants,
    -- A scalar: as `exists` it may be hashed, over the dead letter queues of all projects.
    coalesce((
        select true from taskforge.queues o
        where o.project = q.project and o.settings ->> 'dead_letter_queue_id' = q.id::text and o.settings ->> 'dead_letter_queue_id' is not null
          and o.deleted_at is null limit 1
    ), false) as buries,
    (select p.catalog_version from taskforge.projects p where p.number = q.project) as catalog_version
from taskforge.queues q;

-- Append-only. Read and sealed in the order (xact, number) below the snapshot horizon: what lies there can only be added to behind.
create table taskforge.audit (
    xact bigint not null default pg_current_xact_id()::text::bigint,
    number bigint generated always as identity,
    at timestamptz not null,
    organization int,
    organization_number bigint, -- counts the organization's own entries: what its members see
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
create index audit_organization on taskforge.audit (organization, organization_number);
create index audit_at on taskforge.audit using brin (at);

-- Each organization's entries have numbers of their own, from a sequence of its own: a counter in a row would make every change of an
-- organization wait for the one before. Both functions work with their owner's rights: a server's user may have none but on tables.
create function taskforge.number_organization() returns trigger language plpgsql
    security definer set search_path = pg_catalog as $function$
begin
    execute format('create sequence taskforge.audit_numbers_%s', new.number);
    return new;
end
$function$;
create trigger number_organization after insert on taskforge.organizations
    for each row execute function taskforge.number_organization();
create sequence taskforge.audit_numbers_1;

create function taskforge.number_audit() returns trigger language plpgsql
    security definer set search_path = pg_catalog as $function$
begin
    new.organization_number := nextval(to_regclass(format('taskforge.audit_numbers_%s', new.organization)));
    return new;
end
$function$;
create trigger number_audit before insert on taskforge.audit
    for each row when (new.organization is not null and new.organization_number is null)
    execute function taskforge.number_audit();

-- Each seal covers the entries behind the seal before it, up to and with (last_xact, last_number). Its hash covers the hash of the
-- seal before it, so that one altered, removed or slipped-in entry breaks the chain from there on.
create table taskforge.audit_seals (
    number bigint primary key,
    last_xact bigint not null,
    last_number bigint not null,
    entries int not null,
    digest bytea not null,
    previous bytea not null, -- the hash of the seal before it
    pruned_to bigint not null, -- the entries of this seal and of all before it are gone
    key text not null, -- the id of the key that made the hash; '' is none
    hash bytea not null,
    handover bytea, -- where the key changes: the hash by the key before
    at timestamptz not null
);
