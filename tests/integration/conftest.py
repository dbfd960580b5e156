"""The fixtures of tests.support.serving, for the tests of this folder."""

from tests.support.serving import api, databases, root, serve, store_url

__all__ = ["api", "databases", "root", "serve", "store_url"]
