-- What connections remember of a project's catalog is out of date. ?1 project
update projects set catalog_version = catalog_version + 1 where number = ?1 returning catalog_version
