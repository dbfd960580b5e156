"""The fixtures of tests.support.apps, for the tests of this folder."""

from tests.support.apps import crew, crew_on_each, served, servers, settings, sqlite_url

__all__ = ["crew", "crew_on_each", "served", "servers", "settings", "sqlite_url"]
