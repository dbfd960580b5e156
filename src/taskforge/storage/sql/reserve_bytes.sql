-- Reserve room for bytes under an organization's ceiling, if there is room for all of them; returns a
-- row if there was. $1 organization · $2 bytes
update taskforge.ceilings set reserved_bytes = reserved_bytes + $2
where organization = $1 and counted_bytes + reserved_before + reserved_bytes + $2 <= stored_bytes
returning organization
