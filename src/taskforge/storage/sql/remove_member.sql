-- End a user's place in an organization; touches nothing if it is the last owner. Behind
-- lock_organization. $1 organization · $2 user
delete from taskforge.memberships
where organization = $1 and member = $2
    and (role <> 'owner' or (
        select count(*) from taskforge.memberships o
        where o.organization = $1 and o.role = 'owner') > 1)
