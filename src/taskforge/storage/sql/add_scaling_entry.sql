-- A line of the history of a scaling policy. $1 project · $2 the queue's id · $3 its name · $4 now · $5 news
-- · $6 how many workers · $7 how many are wanted · $8 reason · $9 term · $10 figures, JSON, or null
insert into taskforge.scaling_history (project, queue, name, at, news, count, desired, reason, term, figures)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
