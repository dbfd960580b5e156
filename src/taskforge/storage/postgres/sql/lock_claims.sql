-- Until the commit nothing starts to run and nothing ends: claims and ends take a lock that this one
-- keeps out.
lock table taskforge.running in share mode
