-- What a user holds for one organization. $1 organization · $2 user
delete from taskforge.tokens where organization = $1 and member = $2
