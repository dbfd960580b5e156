-- A worker as claims know it, and the version of its project's catalog as of now. $1 incarnation
select id, incarnation, project, worker_type, role, capabilities::text, queues, types, not
    drain_mode and healthy as accepts,
    (select catalog_version from taskforge.projects p where p.number = w.project) as catalog_version
from taskforge.workers w where incarnation = $1
