"""Measurements of TaskForge. Each prints what it measured beside something raw measured in the same
run."""
