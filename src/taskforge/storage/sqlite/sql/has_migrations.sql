-- Whether the file was ever migrated.
select 1 from sqlite_master where type = 'table' and name = 'migrations'
