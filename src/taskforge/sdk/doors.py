"""What an app has beside its jobs, each under a name of its own."""

from typing import TYPE_CHECKING, cast

from taskforge.sdk.alerts import AppAlerts
from taskforge.sdk.assignments import AppAssignments
from taskforge.sdk.circuits import AppCircuits
from taskforge.sdk.metrics import AppMetrics
from taskforge.sdk.schedules import AppSchedules

if TYPE_CHECKING:
    from taskforge.sdk.app import TaskForge


class Doors:
    """A part of `TaskForge`, and of nothing else."""

    @property
    def _app(self) -> "TaskForge":
        return cast("TaskForge", self)

    @property
    def schedules(self) -> AppSchedules:
        """Make, read, edit, pause, resume, run and delete schedules."""
        return AppSchedules(self._app)

    @property
    def alerts(self) -> AppAlerts:
        """Make, read, edit, silence and delete alert rules; what became of them."""
        return AppAlerts(self._app)

    @property
    def metrics(self) -> AppMetrics:
        """How executions went over a period."""
        return AppMetrics(self._app)

    @property
    def circuits(self) -> AppCircuits:
        """See, open and close circuits, and set the thresholds of dependencies."""
        return AppCircuits(self._app)

    @property
    def assignments(self) -> AppAssignments:
        """See and change which workers serve which queues."""
        return AppAssignments(self._app)
