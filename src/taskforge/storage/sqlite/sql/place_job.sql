-- Place a job on a worker that is placed on nobody. ?1 fence · ?2 what stands for the worker
update ready set key = ?2 where fence = ?1 and key = 0
