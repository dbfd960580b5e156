-- Remove the alert rules of a project that is removed itself. $1 project
delete from taskforge.alert_rules where project = $1
