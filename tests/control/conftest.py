from tests.engine.conftest import clock, engine, other, schemas, store, world

__all__ = ["clock", "engine", "other", "schemas", "store", "world"]
