-- $1 queue · $2 tokens · $3 refreshed at · $4 rate · $5 judged at · $6 behind
update taskforge.gates set tokens = $2, refreshed_at = $3, rate = $4, judged_at = $5, behind = $6 where queue = $1
