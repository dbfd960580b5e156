-- Insert jobs that are ready at once and have nothing but type, priority and payload. The fast path
-- for jobs of several lanes.
-- $1 ids · $2 first fences · $3 lanes · $4 max attempts · $5 payloads · $6 catalog versions · $7 now
-- (tests) · $8 the projects of these versions
-- Inserts nothing when the caller's memory of the catalog is stale.
with
-- include: insert_plain
