-- When somebody last looked for lapsed claims, when the next look was promised for, and whether
-- something runs, or a worker's lease held beyond that look.
select at, rhythm, exists (select 1 from running) or exists (select 1 from workers w where w.lease_until > looks.at) from looks
