-- Why a claim took nothing: $1 incarnation · $2 now (tests)
select (select version from taskforge.catalog) as version,
    exists (
        select from taskforge.workers
        where incarnation = $1 and lease_until > coalesce($2::timestamptz, statement_timestamp())
    ) as alive
