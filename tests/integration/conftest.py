"""The fixtures of tests.serving, for the tests of this folder."""

from tests.serving import api, root, serve, store_url

__all__ = ["api", "root", "serve", "store_url"]
