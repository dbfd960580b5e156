-- Workers that came while jobs were being parked: what they missed by that is offered to them as to
-- any that is new.
-- $1 incarnations that were there before · $2 now (tests)
update taskforge.workers set is_new = true
where lease_until > coalesce($2::timestamptz, statement_timestamp()) and not drain_mode and not stopping and incarnation <> all ($1::uuid[])
