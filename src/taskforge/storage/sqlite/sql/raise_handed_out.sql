-- The file was restored: as raise_handed_out.sql of PostgreSQL says, several statements.
-- :raised by how much · :now by the clock that leases go by · raised_fence() of restores.py
update ready set fence = raised_fence(fence);
update waiting set fence = raised_fence(fence);
update running set fence = raised_fence(fence);
update workers set lease_until = min(lease_until, :now) where left_at is null;
update workers set blocking = null;
update looks set rhythm = null;
delete from nodes;
update leadership set term = term + :raised, node = null;
update projects set catalog_version = catalog_version + :raised;
update horizons set restores = restores + 1;
