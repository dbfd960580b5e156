-- Begin a transaction behind the wall. ROLE: the readers' role · PROJECTS: the numbers of those that
-- it shows, between commas. The setting's name is in two parts because of the schema that is put in.
begin read only;
set local role "ROLE";
select set_config('taskforge' || '.projects', 'PROJECTS', true)
