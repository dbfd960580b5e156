-- What to run where TaskForge may not make the role itself. ROLE: the readers' role
create role "ROLE" nologin;
