-- An invitation to an organization. $1 id · $2 organization · $3 email · $4 role · $5 hash of its
-- token · $6 now · $7 until when it can be accepted
insert into taskforge.invitations (id, organization, email, role, token, created_at, expires_at)
values ($1, $2, $3, $4, $5, $6, $7)
