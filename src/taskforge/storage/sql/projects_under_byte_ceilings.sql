-- The projects of organizations that have a ceiling of stored bytes.
select p.number, p.organization from taskforge.ceilings c
join taskforge.projects p on p.organization = c.organization
where c.stored_bytes is not null
