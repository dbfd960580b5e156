"""The fixtures of tests.support.serving, for the tests of this folder."""

from tests.support.serving import SETUP, Api, Tenant, api, databases, root, serve, store_url

__all__ = ["SETUP", "Api", "Tenant", "api", "databases", "root", "serve", "store_url"]
