-- Insert plain jobs of one lane, which differ in their payloads only: 4.4 µs of the server's time
-- for each, where `insert_plain` takes 5.7.
-- $1 ids · $2 first fences · $3 payloads, with a separator that no JSON holds · $4 catalog version
-- · $5 now (tests) · $6 lane, and what it stands for: $7 project · $8 queue · $9 type · $10
-- priority · $11 requires · $12 max attempts
-- Inserts nothing when the caller's memory of the catalog is stale.
with
-- include: insert_alike
