-- $1 queue · $2 tokens · $3 refreshed at
update taskforge.gates set tokens = $2, refreshed_at = $3 where queue = $1
