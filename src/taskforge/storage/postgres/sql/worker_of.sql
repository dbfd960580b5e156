-- Whose life an incarnation is. $1 incarnation
select project, name, id from taskforge.workers where incarnation = $1
