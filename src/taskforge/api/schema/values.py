"""Types that views and bodies share."""

from typing import Any

from taskforge.domain.job_request import Time

__all__ = ["Json", "Time"]

Json = Any
"""Any JSON value, passed through as it was stored."""
