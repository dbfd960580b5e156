-- Remove the circuits of a project that is removed itself. Nothing depends on them: no worker was ever
-- there. $1 project
delete from taskforge.circuits where project = $1 and queue is null
