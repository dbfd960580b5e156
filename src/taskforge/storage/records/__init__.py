"""Everything small and rarely written, one file a kind of record, once for both engines."""
