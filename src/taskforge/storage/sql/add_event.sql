-- An event of a record that changed. $1 project · $2 topic · $3 details, JSON · $4 now
insert into taskforge.outbox (project, topic, details, at) values ($1, $2, $3, $4)
