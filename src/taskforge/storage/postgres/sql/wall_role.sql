-- Who is connected, as it is written in a statement, and whether the wall's role is there. $1 role
select quote_ident(current_user) as connected, exists (select from pg_roles where rolname = $1) as is_there
