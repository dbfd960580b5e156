-- Everything that one login began. $1 family
delete from taskforge.tokens where family = $1
