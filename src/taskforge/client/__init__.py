"""A TaskForge server from afar: requests without I/O, and what sends them."""
