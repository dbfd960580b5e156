-- A new secret; the one before signs too for a while. $1 number · $2 the version that was read · $3 the
-- new one · $4 until when the old one signs · $5 now
update taskforge.webhooks set old_secret = secret, secret = $3, old_secret_until = $4,
    version = version + 1, updated_at = $5
where number = $1 and version = $2
