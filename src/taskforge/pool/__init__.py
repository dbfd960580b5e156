"""An in-process worker pool, and rate limits for callers in one event loop. It needs no store and
no server.

The algorithms (limiters, balancers, retries) are those of `taskforge.domain`, which the platform's
queues use too.
"""

from taskforge.domain.errors import RemoteError
from taskforge.domain.limiter import Adaptive, FixedRate, LeakyBucket, TokenBucket
from taskforge.domain.retry import RetryPolicy
from taskforge.pool.errors import Dropped, LimiterFull, PoolClosed, PoolFull, WorkerDied
from taskforge.pool.handle import Handle
from taskforge.pool.limiter import RateLimiter
from taskforge.pool.pool import WorkerPool
from taskforge.pool.results import Results
from taskforge.pool.stats import PoolStats, WorkerStats

__all__ = [
    "Adaptive",
    "Dropped",
    "FixedRate",
    "Handle",
    "LeakyBucket",
    "LimiterFull",
    "PoolClosed",
    "PoolFull",
    "PoolStats",
    "RateLimiter",
    "RemoteError",
    "Results",
    "RetryPolicy",
    "TokenBucket",
    "WorkerDied",
    "WorkerPool",
    "WorkerStats",
]
