-- Rename a project, unless the name is another's in its organization. $1 project · $2 name · $3
-- organization
update taskforge.projects set name = $2
where number = $1 and not exists (
    select 1 from taskforge.projects where organization = $3 and name = $2 and number <> $1)
