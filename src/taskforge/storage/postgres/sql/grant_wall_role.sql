-- What to run where TaskForge may not take the role. ROLE: the readers' role · USER: who connects
grant "ROLE" to USER with inherit false, set true;
