-- The facts of new jobs, row by row. COLUMNS: those that the rows have; which ones a job's fields
-- are is said in domain/job.py. ROWS: so many places for their values, each row in parentheses.
insert into jobs (COLUMNS) values ROWS
