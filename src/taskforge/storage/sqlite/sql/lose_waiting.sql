-- A job is put elsewhere. ?1 fence
delete from waiting where fence = ?1
