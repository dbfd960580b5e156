"""What people see in a terminal: tables, colours, questions, the live view."""
