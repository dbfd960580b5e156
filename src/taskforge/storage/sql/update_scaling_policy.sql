-- An edit of a scaling policy, if it has the version that was read. $1 queue · $2 that version · $3
-- provider · $4 whether it is paused · $5 whether it only advises · $6 policy, JSON · $7 now
update taskforge.scaling_policies set provider = $3, is_paused = $4, is_dry_run = $5, policy = $6, version = version + 1,
    updated_at = $7
where queue = $1 and version = $2
