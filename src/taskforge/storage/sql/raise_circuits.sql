-- The circuits of a project have changed: what processes remember of its catalog is out of date.
-- $1 project
update taskforge.projects set catalog_version = catalog_version + 1, circuits_stamp = catalog_version + 1 where number = $1
