-- What is added to the time since this boot of the machine; none: the file has not seen it. ?1 boot
select behind from boot where id = ?1
