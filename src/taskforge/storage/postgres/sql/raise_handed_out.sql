-- The store was restored: whatever was handed out since the backup was made, fences, terms and
-- versions of catalogs, is never handed out again; the leases and nodes of before are over, and no
-- silence is bridged for them. $1 by how much · $2 the store's identity · $3 what is added to the
-- numbers of transactions from here on · $4 now (tests)
with ready as (
    update taskforge.ready set fence = overlay(fence::text placing
        lpad(to_hex(('x' || right(fence::text, 6))::bit(24)::int + $1::int), 6, '0') from 31)::uuid
),
waiting as (
    update taskforge.waiting set fence = overlay(fence::text placing
        lpad(to_hex(('x' || right(fence::text, 6))::bit(24)::int + $1::int), 6, '0') from 31)::uuid
),
running as (
    update taskforge.running set fence = overlay(fence::text placing
        lpad(to_hex(('x' || right(fence::text, 6))::bit(24)::int + $1::int), 6, '0') from 31)::uuid
),
leases as (
    update taskforge.workers set lease_until = least(lease_until, coalesce($4::timestamptz, statement_timestamp())), blocking = null where left_at is null
),
looks as (
    update taskforge.looks set rhythm = null
),
nodes as (
    delete from taskforge.nodes
),
terms as (
    update taskforge.leadership set term = term + $1::int, node = null
),
catalogs as (
    update taskforge.projects set catalog_version = catalog_version + $1::int
)
update taskforge.horizons set restores = restores + 1, store = $2, added_to_xact = $3
