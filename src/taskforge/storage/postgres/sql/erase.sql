-- $1 job
update taskforge.jobs set payload = null where id = $1
