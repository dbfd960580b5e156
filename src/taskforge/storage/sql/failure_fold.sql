-- How often failures were added to their groups.
select version from taskforge.failure_folds
