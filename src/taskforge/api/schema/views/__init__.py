"""What callers see: the domain's values without the store's own numbers, and without what the
caller may not read. One file an entity."""
