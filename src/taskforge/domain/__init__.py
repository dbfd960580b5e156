"""The vocabulary and the rules of TaskForge: pure values and functions. No I/O, no clock reads."""
