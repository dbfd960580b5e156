"""What users may ask for, in front of an engine, and the upkeep that any process runs."""
