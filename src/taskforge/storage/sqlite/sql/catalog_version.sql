-- The version of a project's catalog that is in force, and that at which its circuits last changed.
-- ?1 project
select catalog_version, circuits_stamp from projects where number = ?1
