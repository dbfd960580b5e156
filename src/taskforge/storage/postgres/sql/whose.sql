-- Who runs these executions, in which lane, and the catalog's version as of now. $1 fences
select fence, worker, lane, (select version from taskforge.catalog) as version from taskforge.running where fence = any ($1::uuid[])
