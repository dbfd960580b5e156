-- One after the other for those who register under the same name in a project: a process, or an
-- operator ahead of it. Until the end of the transaction. $1 project · $2 name
select pg_advisory_xact_lock(hashtextextended($2, $1))
