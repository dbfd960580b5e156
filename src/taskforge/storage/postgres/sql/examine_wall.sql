-- Whether the role behind the wall is there and may be taken. $1 its name
select exists (select from pg_roles where rolname = $1 and pg_has_role(current_user, oid, 'member'))
