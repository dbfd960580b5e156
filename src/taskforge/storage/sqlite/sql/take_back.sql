-- What is placed on a worker is placed on nobody again. ?1 project · ?2 lane · ?3 what stands for the
-- worker
update ready set key = 0 where project = ?1 and lane = ?2 and key = ?3
