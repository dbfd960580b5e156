-- A node joins. $1 id · $2 name · $3 roles, with spaces between · $4 whether it is a server · $5
-- address, or null · $6 host · $7 process id · $8 version · $9 seconds between its heartbeats · $10
-- now · $11 how its services fare, JSON, or null
insert into taskforge.nodes (id, name, roles, is_server, address, host, pid, version, beat_seconds,
    joined_at, seen_at, upkeep)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $10, $11) on conflict (id) do nothing
