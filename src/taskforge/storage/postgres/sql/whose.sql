-- Who runs these executions, in which lane, whether they were asked to stop, and the catalog's version as of now. $1 fences
select fence, worker, lane, cancel_requested, (select version from taskforge.catalog) as version
from taskforge.running where fence = any ($1::uuid[])
