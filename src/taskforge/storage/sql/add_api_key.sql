-- An API key of an organization. $1 id · $2 organization · $3 project, or null for all of it · $4
-- kind · $5 name · $6 prefix · $7 hash of the secret · $8 permissions, with spaces between · $9 who
-- made it · $10 now · $11 until when it holds, or null
insert into taskforge.api_keys (id, organization, project, kind, name, prefix, secret, permissions,
    created_by, created_at, expires_at)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
