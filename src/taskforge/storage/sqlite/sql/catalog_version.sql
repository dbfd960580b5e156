-- The version of a project's catalog that is in force. ?1 project
select catalog_version from projects where number = ?1
