-- Another role for a member; touches nothing if it is the last owner. Behind lock_organization. $1
-- organization · $2 user · $3 role
update taskforge.memberships set role = $3
where organization = $1 and member = $2
    and (role <> 'owner' or (
        select count(*) from taskforge.memberships o
        where o.organization = $1 and o.role = 'owner') > 1)
