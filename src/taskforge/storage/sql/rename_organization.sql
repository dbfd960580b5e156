-- Rename an organization, unless the name is another's. $1 number · $2 name
update taskforge.organizations set name = $2
where number = $1
    and not exists (select 1 from taskforge.organizations where name = $2 and number <> $1)
