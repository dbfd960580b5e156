-- An entry of the audit log, in the transaction of the change it tells of. $1 now · $2 organization
-- · $3 project · $4 actor · $5 action · $6 target · $7 before, as JSON · $8 after · $9 origin · $10
-- request
insert into taskforge.audit (at, organization, project, actor, action, target, before, after,
    origin, request)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
