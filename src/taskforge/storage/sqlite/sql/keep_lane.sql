-- Take the doubt from a lane that is about to be used. ?1 number
update lanes set doubted_at = null, kept_at = unixepoch() * 1000000 where number = ?1
