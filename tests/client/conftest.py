from tests.worker.conftest import served, servers

__all__ = ["served", "servers"]
