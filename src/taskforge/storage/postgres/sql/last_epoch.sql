-- The highest epoch a finished job has reached. $1 job · $2 epoch in its finished row
select greatest($2::int, (select max(epoch) from taskforge.executions where job = $1))
