-- Remove a project that was never used: history belongs to its project. $1 project
delete from taskforge.projects
where number = $1
    and not exists (select 1 from taskforge.queues where project = $1)
    and not exists (select 1 from taskforge.workers where project = $1)
    and not exists (select 1 from taskforge.api_keys where project = $1)
