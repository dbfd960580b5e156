-- Nobody reads or writes facts and history until the commit.
lock table taskforge.jobs, taskforge.finished, taskforge.executions, taskforge.logs, taskforge.job_tags in access exclusive mode
