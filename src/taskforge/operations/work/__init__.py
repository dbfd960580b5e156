"""What workers ask of a server, and what follows from their outcomes."""
