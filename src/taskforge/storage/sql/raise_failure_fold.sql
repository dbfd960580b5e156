-- Whoever adds failures to their groups does it behind all others. $1 the version that it has seen
update taskforge.failure_folds set version = version + 1 where version = $1
