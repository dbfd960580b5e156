-- Accept an invitation, once and in time. $1 id · $2 now
update taskforge.invitations set accepted_at = $2
where id = $1 and accepted_at is null and expires_at > $2
