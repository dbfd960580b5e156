-- A job is put elsewhere. ?1 fence
delete from ready where fence = ?1
