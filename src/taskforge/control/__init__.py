"""What needs exactly one to act: who leads, and what runs for as long as it does."""
