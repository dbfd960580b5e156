-- A table for the jobs that stay when their day goes.
create temporary table survivors (id uuid primary key) on commit drop
