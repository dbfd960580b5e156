"""Storage: one Protocol, and an engine for each store behind it."""
