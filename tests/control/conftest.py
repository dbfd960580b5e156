from tests.engine.conftest import clock, engine, other, store, world

__all__ = ["clock", "engine", "other", "store", "world"]
