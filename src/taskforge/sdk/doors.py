"""What an app has beside its jobs, each under a name of its own."""

from typing import TYPE_CHECKING, cast

from taskforge.sdk.alerts import AppAlerts
from taskforge.sdk.assignments import AppAssignments
from taskforge.sdk.circuits import AppCircuits
from taskforge.sdk.failures import AppFailures
from taskforge.sdk.many_jobs import AppJobs
from taskforge.sdk.metrics import AppMetrics
from taskforge.sdk.queues import AppQueues
from taskforge.sdk.scaling import AppScaling
from taskforge.sdk.schedules import AppSchedules
from taskforge.sdk.webhooks import AppWebhooks
from taskforge.sdk.workers import AppWorkers

if TYPE_CHECKING:
    from taskforge.sdk.app import TaskForge


class Doors:
    """A part of `TaskForge`, and of nothing else."""

    @property
    def _app(self) -> "TaskForge":
        return cast("TaskForge", self)

    @property
    def jobs(self) -> AppJobs:
        """List, count, retry, cancel, delete, move, redrive and erase many jobs."""
        return AppJobs(self._app)

    @property
    def queues(self) -> AppQueues:
        """Make, read, edit, pause, resume, measure and delete queues."""
        return AppQueues(self._app)

    @property
    def workers(self) -> AppWorkers:
        """Make known, read, edit, drain and measure workers."""
        return AppWorkers(self._app)

    @property
    def schedules(self) -> AppSchedules:
        """Make, read, edit, pause, resume, run and delete schedules."""
        return AppSchedules(self._app)

    @property
    def alerts(self) -> AppAlerts:
        """Make, read, edit, silence and delete alert rules; what became of them."""
        return AppAlerts(self._app)

    @property
    def webhooks(self) -> AppWebhooks:
        """Make, read, edit, try and delete webhooks; what was sent to them."""
        return AppWebhooks(self._app)

    @property
    def failures(self) -> AppFailures:
        """Groups of failures: what fails alike; run its jobs again, or delete them."""
        return AppFailures(self._app)

    @property
    def metrics(self) -> AppMetrics:
        """How executions went over a period."""
        return AppMetrics(self._app)

    @property
    def circuits(self) -> AppCircuits:
        """See, open and close circuits, and set the thresholds of dependencies."""
        return AppCircuits(self._app)

    @property
    def scaling(self) -> AppScaling:
        """Say how many workers queues should have, and see what came of it."""
        return AppScaling(self._app)

    @property
    def assignments(self) -> AppAssignments:
        """See and change which workers serve which queues."""
        return AppAssignments(self._app)
