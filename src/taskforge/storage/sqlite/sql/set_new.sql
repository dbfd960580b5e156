-- Whether a worker is still to be offered what is parked. ?1 incarnation · ?2 whether
update workers set is_new = ?2 where incarnation = ?1
