-- A count of what is stored begins: what is reserved from now on, it may miss.
update taskforge.ceilings set reserved_before = reserved_before + reserved_bytes, reserved_bytes = 0
where stored_bytes is not null
