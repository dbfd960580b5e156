-- The version of a project's catalog that is in force. $1 project
select catalog_version from taskforge.projects where number = $1
