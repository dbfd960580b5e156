"""The fixtures of tests.support.serving, for the tests of this folder."""

from tests.support.serving import api, root, serve, store_url

__all__ = ["api", "root", "serve", "store_url"]
