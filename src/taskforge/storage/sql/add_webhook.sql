-- A webhook; nothing if its project has one of this name. $1 id · $2 project · $3 name · $4 url · $5
-- description · $6 kinds and $7 queues, with spaces between · $8 seconds between reports · $9 when the
-- first is due, or null · $10 whether it is active · $11 secret · $12 now · $13 organization · $14
-- whether it is sent what is no project's
insert into taskforge.webhooks (id, project, name, url, description, kinds, queues, report_seconds,
    report_at, is_active, secret, since, organization, sees_cluster, waiting, failures, version,
    created_at, updated_at)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, 0, 0, 1, $12, $12)
on conflict (project, name) do nothing returning number
