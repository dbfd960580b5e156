-- The wall: a role that sees of each table only the rows of the projects it was told, whatever a
-- statement asks for. The owner of the tables is not affected, nor is anybody else who was granted
-- rights on them. Refused to a user who may not create roles, where the role is not there yet.
do $wall$
declare
    reader name := 'SCHEMA_reader';
    home name := (select n.nspname from pg_class c join pg_namespace n on n.oid = c.relnamespace where c.oid = 'taskforge.jobs'::regclass);
    -- Without inheritance: the policies would otherwise hold for the user who may take the role.
    terms text := case when current_setting('server_version_num')::int >= 160000 then 'with inherit false, set true' else '' end;
    -- A sub-select is computed once for each statement. The setting's name is in two parts because of the schema that is put in here.
    seen text := $seen$project = any ((select string_to_array(current_setting('taskforge' || '.projects', true), ',')::int[])::int[])$seen$;
    -- Whoever makes a role is its member since PostgreSQL 16, and yet may not take it.
    may_take text := case when current_setting('server_version_num')::int >= 160000 then 'set' else 'member' end;
    one name;
begin
    if not exists (select from pg_roles where rolname = reader) then
        begin
            execute format('create role %I nologin', reader);
        exception when duplicate_object or unique_violation then
            null; -- another database of this server was quicker
        end;
    end if;
    if not pg_has_role(current_user, reader, may_take) then
        execute format('grant %I to current_user %s', reader, terms);
    end if;
    execute format('grant usage on schema %I to %I', home, reader);
    execute format('grant select on %I.horizons, %I.jobs_now to %I', home, home, reader);
    foreach one in array array['jobs', 'ready', 'waiting', 'running', 'finished', 'executions', 'logs', 'job_tags', 'queues', 'lanes', 'workers',
        'former_workers', 'assignments', 'tallies', 'tally_deltas', 'rollups', 'rollup_deltas', 'rollup_scopes', 'rollups_due', 'worker_tallies',
        'outbox',
        'schedules', 'slots']
    loop
        execute format('grant select on %I.%I to %I', home, one, reader);
        execute format('alter table %I.%I enable row level security', home, one);
        execute format('drop policy if exists everyone on %I.%I', home, one);
        execute format('drop policy if exists wall on %I.%I', home, one);
        execute format('create policy everyone on %I.%I using (true) with check (true)', home, one);
        execute format('create policy wall on %I.%I as restrictive for select to %I using (%s)', home, one, reader, seen);
    end loop;
end
$wall$;
