"""Alert rules: make, read, change, silence; which of them fire, and what became of them."""

from typing import Annotated
from uuid import UUID

import msgspec
from litestar import Response, delete, get, patch, post
from litestar.di import NamedDependency
from litestar.params import FromQuery, JSONBody, PathParameter

from taskforge.api.entry.caller import Caller
from taskforge.api.entry.cursors import Cursor, cursor_behind, position_of
from taskforge.api.entry.etags import IfMatch, mark_in, tagged
from taskforge.api.entry.problems import responses
from taskforge.api.routes.queues import NewIn, ProjectName
from taskforge.api.schema.alert_views import (
    AlertEntryView,
    AlertRuleEditBody,
    AlertRuleView,
    NewAlertRuleBody,
    SilenceBody,
    alert_entry_view,
    alert_rule_view,
)
from taskforge.domain import rules
from taskforge.domain.access import Permission
from taskforge.domain.alert import AlertRule
from taskforge.operations import alerts

MOST_LISTED = 1_000
RuleName = Annotated[
    str,
    PathParameter(description="A rule's id, or its name where one of your projects has it"),
]


class AlertRuleList(msgspec.Struct, frozen=True):
    items: list[AlertRuleView]
    next_cursor: str | None
    """Null: this is the last page"""


class AlertHistory(msgspec.Struct, frozen=True):
    items: list[AlertEntryView]
    next_cursor: str | None
    """Null: this is the last page"""


@get("/alerts", permission=Permission.QUEUE_READ, tags=["Alerts"], responses=responses(404))
async def list_alert_rules(
    caller: NamedDependency[Caller],
    project: ProjectName = None,
    limit: FromQuery[int] = 100,
    cursor: Cursor = None,
) -> AlertRuleList:
    """List alert rules with what each says now, of one project or of the whole organization."""
    rules.integer("limit", limit, 1, MOST_LISTED)
    found = await alerts.list_rules(
        caller.platform.records.alerts,
        await caller.projects(project),
        after=position_of(cursor),
        limit=limit,
    )
    names = await caller.project_names()
    more = cursor_behind(found[-1].number) if len(found) == limit else None
    return AlertRuleList([alert_rule_view(one, names) for one in found], more)


@post("/alerts", permission=Permission.QUEUE_WRITE, tags=["Alerts"], responses=responses(404, 409))
async def create_alert_rule(
    caller: NamedDependency[Caller], data: JSONBody[NewAlertRuleBody], project: NewIn = None
) -> Response[AlertRuleView]:
    """Create an alert rule. It is looked at every 15 seconds; when it fires, repeats or is resolved
    there is an event, a line in the log and one in its history."""
    owner = await caller.project(project)
    made = await alerts.create_rule(
        caller.platform.engine,
        caller.platform.records.alerts,
        owner.number,
        data.new(),
        caller.note("alert_rule.create"),
    )
    return await _rendered(caller, made, 201)


@get("/alerts/history", permission=Permission.QUEUE_READ, tags=["Alerts"], responses=responses(404))
async def list_alert_history(
    caller: NamedDependency[Caller],
    project: ProjectName = None,
    rule_id: FromQuery[UUID | None] = None,
    limit: FromQuery[int] = 50,
    cursor: Cursor = None,
) -> AlertHistory:
    """What became of alerts, the newest first: of all rules, or of one, also after its end."""
    rules.integer("limit", limit, 1, MOST_LISTED)
    found = await alerts.page_history(
        caller.platform.records.alerts,
        await caller.projects(project),
        rule_id,
        before=position_of(cursor, 2**62) or None,
        limit=limit,
    )
    more = cursor_behind(found[-1].number) if len(found) == limit else None
    return AlertHistory([alert_entry_view(one) for one in found], more)


@get(
    "/alerts/{rule:str}",
    permission=Permission.QUEUE_READ,
    tags=["Alerts"],
    responses=responses(404),
)
async def get_alert_rule(
    caller: NamedDependency[Caller], rule: RuleName
) -> Response[AlertRuleView]:
    """Read an alert rule; its ETag makes a later change safe."""
    return await _rendered(caller, await caller.alert_rule(rule))


@patch(
    "/alerts/{rule:str}",
    permission=Permission.QUEUE_WRITE,
    tags=["Alerts"],
    responses=responses(404, 409, 412),
)
async def update_alert_rule(
    caller: NamedDependency[Caller],
    rule: RuleName,
    data: JSONBody[AlertRuleEditBody],
    if_match: IfMatch = None,
) -> Response[AlertRuleView]:
    """Change, pause or resume an alert rule. One that is paused says nothing."""
    changed = await alerts.update_rule(
        caller.platform.engine,
        caller.platform.records.alerts,
        await caller.alert_rule(rule),
        data.edit(),
        caller.note("alert_rule.update"),
        mark_in(if_match),
    )
    return await _rendered(caller, changed)


@post(
    "/alerts/{rule:str}/silence",
    permission=Permission.QUEUE_WRITE,
    status_code=200,
    tags=["Alerts"],
    responses=responses(404, 409, 412),
)
async def silence_alert_rule(
    caller: NamedDependency[Caller], rule: RuleName, data: JSONBody[SilenceBody]
) -> Response[AlertRuleView]:
    """Tell nobody of it for a while. It is looked at, and its history goes on."""
    changed = await alerts.silence_rule(
        caller.platform.records.alerts,
        await caller.alert_rule(rule),
        data.seconds,
        caller.note("alert_rule.silence"),
    )
    return await _rendered(caller, changed)


@delete(
    "/alerts/{rule:str}",
    permission=Permission.QUEUE_WRITE,
    tags=["Alerts"],
    responses=responses(404, 412),
)
async def delete_alert_rule(
    caller: NamedDependency[Caller], rule: RuleName, if_match: IfMatch = None
) -> None:
    """Delete an alert rule. Its history stays."""
    old = await caller.alert_rule(rule)
    note = caller.note("alert_rule.delete")
    await alerts.delete_rule(caller.platform.records.alerts, old, note, mark_in(if_match))


async def _rendered(caller: Caller, rule: AlertRule, status: int = 200) -> Response[AlertRuleView]:
    names = await caller.project_names(rule.project)
    return tagged(alert_rule_view(rule, names), rule.mark, status)


HANDLERS = [
    list_alert_rules,
    create_alert_rule,
    list_alert_history,
    get_alert_rule,
    update_alert_rule,
    silence_alert_rule,
    delete_alert_rule,
]
