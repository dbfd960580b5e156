-- Whether the schema was ever migrated.
select to_regclass('taskforge.migrations') is not null
