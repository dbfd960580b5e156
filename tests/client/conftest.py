"""The fixtures of tests.support.apps, for the tests of this folder."""

from tests.support.apps import served, servers

__all__ = ["served", "servers"]
