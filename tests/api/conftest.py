"""The fixtures of tests.serving, for the tests of this folder."""

from tests.serving import SETUP, Api, Tenant, api, root, serve, store_url

__all__ = ["SETUP", "Api", "Tenant", "api", "root", "serve", "store_url"]
