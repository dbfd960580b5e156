-- What processes remember of a project's catalog is out of date. Also the lock under which it
-- changes. $1 project
update taskforge.projects set catalog_version = catalog_version + 1 where number = $1 returning catalog_version
