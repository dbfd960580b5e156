from tests.chaos.fleet import store

__all__ = ["store"]
