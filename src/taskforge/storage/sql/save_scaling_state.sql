-- What a leader knows of a scaling policy, if nobody has written it since it was read. $1 queue · $2 the
-- version of the state · $3 state, JSON · $4 the version of the policy
update taskforge.scaling_policies set state = $3, state_version = state_version + 1
where queue = $1 and state_version = $2 and version = $4
