"""Projects with their quotas."""

from functools import partial

from taskforge.domain.access import PLATFORM_ORGANIZATION
from taskforge.domain.audit import Note
from taskforge.domain.errors import Conflict, NotFound, Stale, nearest
from taskforge.domain.ids import IdMint
from taskforge.domain.tenancy import FIRST_PROJECT, CeilingReached, Project, Quota
from taskforge.domain.versions import check_same
from taskforge.ports.records import Records, Step
from taskforge.storage.records.audit_log import audit_step
from taskforge.storage.records.organizations import Organizations
from taskforge.storage.records.rows import first_or_not_found


async def find_home(records: Records, name: str) -> int:
    """The project of this name: of the first organization, or of another as
    `organization/project`."""
    if name == "default":
        return FIRST_PROJECT
    projects = await Projects(records).all()
    # read after, it has those of all projects
    organizations = {one.number: one.name for one in await Organizations(records).all()}
    known = {
        project.name
        if project.organization == PLATFORM_ORGANIZATION
        else f"{organizations[project.organization]}/{project.name}": project.number
        for project in projects
    }
    if name not in known:
        raise NotFound("project", name, nearest=nearest(name, known))
    return known[name]


class Projects:
    def __init__(self, records: Records) -> None:
        self._records = records
        self._mint = IdMint()

    async def all(self) -> list[Project]:
        """All of them: there are few, and whoever asks keeps to those of its principal."""
        return await self._records.look(Project, "projects")

    async def get(self, number: int) -> Project:
        found = await self._records.look(Project, "project", number)
        return first_or_not_found(found, "project", str(number))

    async def create(
        self, organization: int, name: str, quota: Quota, note: Note, most: int | None = None
    ) -> Project:
        """`most`: how many the organization may have, for what is said when it has them."""
        now, identifier = await self._records.now(), self._mint()
        full = partial(CeilingReached, "projects", most or 0)
        answers = await self._records.write(
            [
                Step("lock_organization", (organization,)),
                Step("has_room_for_project", (organization,), full),
                Step("add_project", (identifier, organization, name, now), _taken(name)),
                Step("add_quotas", (identifier, *_limits(quota))),
                audit_step(
                    note,
                    now,
                    f"project {name} ({identifier})",
                    after={"name": name, "quota": quota},
                ),
            ]
        )
        return Project(answers[2][0][0], identifier, organization, name, now, *_limits(quota))

    async def update(
        self,
        old: Project,
        name: str | None,
        quota: Quota | None,
        note: Note,
        expected: str | None = None,
    ) -> Project:
        """What is None stays as it is. `expected`: the mark of the version that is meant, else
        whatever is there."""
        old, now = await self.get(old.number), await self._records.now()
        check_same(f"project {old.name!r}", expected, old.mark)
        given = (name, quota)
        name, quota = old.name if name is None else name, old.quota if quota is None else quota
        before, after = {"name": old.name, "quota": old.quota}, {"name": name, "quota": quota}
        steps = [
            _next_version(old),
            Step("rename_project", (old.number, name, old.organization), _taken(name)),
            Step("set_quotas", (old.number, *_limits(quota))),
            audit_step(
                note,
                now,
                f"project {old.name} ({old.id})",
                project=old.number,
                before=before,
                after=after,
            ),
        ]
        try:
            await self._records.write(steps)
        except Stale:
            if expected is not None:
                raise
            # of what another has changed, only this is to be changed
            return await self.update(old, *given, note)
        return Project(
            old.number,
            old.id,
            old.organization,
            name,
            old.created_at,
            *_limits(quota),
            old.version + 1,
        )

    async def delete(self, old: Project, note: Note, expected: str | None = None) -> None:
        """Only one that was never used: history belongs to its project."""
        now = await self._records.now()
        if expected is not None:
            old = await self.get(old.number)
            check_same(f"project {old.name!r}", expected, old.mark)
        used = partial(
            Conflict,
            f"project {old.name!r} has, or had, queues, workers or keys; their history stays "
            f"readable, so it stays too",
        )
        await self._records.write(
            [
                *([] if expected is None else [_next_version(old)]),
                Step("remove_quotas", (old.number,)),
                Step("remove_quota_usage", (old.number,)),
                Step("remove_alert_rules", (old.number,)),
                Step("remove_circuits", (old.number,)),
                Step("forget_webhooks", (old.number,)),
                Step("remove_webhooks", (old.number,)),
                Step("remove_project", (old.number,), used),
                audit_step(note, now, f"project {old.name} ({old.id})", before={"name": old.name}),
            ]
        )


def _taken(name: str) -> partial[Conflict]:
    return partial(Conflict, f"project {name!r} already exists")


def _next_version(old: Project) -> Step:
    stale = partial(Stale, f"project {old.name!r} was changed since it was read; read it again")
    return Step("raise_project_version", (old.number, old.version), stale)


def _limits(quota: Quota) -> tuple[int | None, int | None, int | None, int | None, int | None]:
    return (
        quota.enqueue_per_minute,
        quota.pending_jobs,
        quota.workers,
        quota.payload_bytes_per_minute,
        quota.schedules,
    )
