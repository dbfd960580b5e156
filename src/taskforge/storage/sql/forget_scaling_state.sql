-- A scaling policy gets its workers from elsewhere: what was asked of its provider is over. $1 queue · $2
-- state, JSON
update taskforge.scaling_policies set state = $2, state_version = state_version + 1 where queue = $1
