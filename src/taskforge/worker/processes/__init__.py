"""The processes around a worker: its lease keeper, its children, its supervisor; and how each of
them knows of the others."""
