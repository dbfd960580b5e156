-- The same for servers before PostgreSQL 16, whose grants have no terms.
grant "ROLE" to USER;
