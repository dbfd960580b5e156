"""For users' tests: run jobs inline on a temporary store, move its clock, assert what was enqueued.

    async with Sandbox(forge) as box:
        await sign_up("a@example.org")  # enqueues
        box.assert_enqueued(send, to="a@example.org", queue="emails")
        [job] = await box.run()
        assert job.status == "succeeded", box.executions(job)

`box.executions` has every attempt with its error, also of a job that waits for its next one.

Code that is not async says `with Sandbox(forge) as box:` and `forge.sync(box.run())`. The
pytest plugin has the fixture
`taskforge_sandbox`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from taskforge.testing.enqueued import EnqueuedJob
    from taskforge.testing.sandbox import Sandbox

# Loaded when first asked for: the pytest plugin of this package is loaded in test runs that do not
# use it.
_WHERE = {"EnqueuedJob": "taskforge.testing.enqueued", "Sandbox": "taskforge.testing.sandbox"}

__all__ = ["EnqueuedJob", "Sandbox"]


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(import_module(_WHERE[name]), name)
    raise AttributeError(f"module 'taskforge.testing' has no attribute {name!r}")
