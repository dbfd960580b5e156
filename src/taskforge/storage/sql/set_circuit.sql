-- How a circuit stands, if its turn is still the one that was read. $1 number · $2 that turn · $3
-- mode · $4 how many may go through, null: all · $5 state, JSON · $6 when time alone changes it · $7
-- the turn from now on
update taskforge.circuits set mode = $3, room = $4, state = $5, due_at = $6, turn = $7 where number = $1 and turn = $2
