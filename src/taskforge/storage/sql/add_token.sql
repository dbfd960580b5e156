-- A token that a login holds. $1 hash of the token · $2 kind · $3 user · $4 organization · $5
-- family · $6 now · $7 until when it holds
insert into taskforge.tokens (token, kind, member, organization, family, created_at, expires_at)
values ($1, $2, $3, $4, $5, $6, $7)
