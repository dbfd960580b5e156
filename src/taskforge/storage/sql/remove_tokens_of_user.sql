-- All tokens of a user, in every organization. $1 user
delete from taskforge.tokens where member = $1
