-- Goes before every change of a project that was read: it touches nothing if the project is another
-- by now. $1 project · $2 the version that was read
update taskforge.projects set version = version + 1 where number = $1 and version = $2
