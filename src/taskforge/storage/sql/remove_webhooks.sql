-- Remove the webhooks of a project that is removed itself. $1 project
delete from taskforge.webhooks where project = $1
