"""TaskForge: a durable job platform on SQLite or PostgreSQL."""

__all__ = ["__version__"]

__version__ = "0.1.0"
