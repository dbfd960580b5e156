-- The thresholds of a dependency, which is made if it is new. $1 project · $2 name · $3 thresholds,
-- JSON
insert into taskforge.circuits (project, dependency, settings) values ($1, $2, $3)
on conflict (project, dependency) where dependency is not null do update set settings = excluded.settings
