-- $1 job · $2 now (tests)
update taskforge.jobs set payload = null, edited_at = coalesce($2::timestamptz, statement_timestamp()) where id = $1
