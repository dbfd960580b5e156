-- A migration was applied. $1 number · $2 name
insert into taskforge.migrations (number, name) values ($1, $2)
