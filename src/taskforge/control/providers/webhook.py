"""Workers from whoever answers at an address. A request is a POST of JSON, signed as Standard
Webhooks describes it; the answer says how many workers there are."""

from datetime import UTC, datetime
from typing import Any, Literal
from uuid import UUID, uuid4

import msgspec

from taskforge.client.outgoing import OutgoingAnswer, OutgoingDoor
from taskforge.control.providers.provider import Departing, Fleet, ProviderFailed
from taskforge.domain.scaling_provider import WebhookDeclaration
from taskforge.domain.signature import read_secret, sign
from taskforge.domain.targets import TargetFailed, TargetRefused

_SHOWN = 200  # characters of an answer that cannot be used
_encode = msgspec.json.Encoder().encode


class WorkerToStop(msgspec.Struct, frozen=True, kw_only=True):
    id: UUID
    name: str
    host: str
    pid: int | None
    capabilities: dict[str, object]


class ScalingRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is asked. `current` asks for nothing but the answer. `scale_up` wants `wanted` workers
    in all, of which `count` are new; said again, it is done already. `stop` is about one worker,
    and lowers what is wanted by one unless that worker is gone."""

    action: Literal["current", "scale_up", "stop"]
    project: str
    queue: str
    policy: UUID
    count: int | None = None
    wanted: int | None = None
    worker: WorkerToStop | None = None


class ScalingAnswer(msgspec.Struct, frozen=True):
    """What a receiver has. Other fields of its answer are passed over."""

    wanted: int
    running: int | None = None


class WebhookProvider:
    def __init__(
        self,
        declaration: WebhookDeclaration,
        door: OutgoingDoor,
        *,
        project: str,
        queue: str,
        policy: UUID,
    ) -> None:
        """`door` is closed with this provider."""
        self._url = declaration.url
        self._key = read_secret("secret", declaration.secret)
        self._door = door
        self._about: dict[str, Any] = {"project": project, "queue": queue, "policy": policy}

    async def current(self) -> Fleet:
        answer = await self._ask(ScalingRequest(action="current", **self._about))
        try:
            told = msgspec.json.decode(answer.body, type=ScalingAnswer)
        except (msgspec.MsgspecError, UnicodeError) as error:
            body = answer.body[:_SHOWN].decode("utf-8", "replace")
            raise ProviderFailed(
                f"the webhook at {self._url} did not answer with "
                f'{{"wanted": …, "running": …}} but with {body!r} ({error})'
            ) from None
        if told.wanted < 0:
            raise ProviderFailed(f"the webhook at {self._url} answered with {told.wanted} wanted")
        return Fleet(told.wanted, told.running)

    async def scale_up(self, count: int, *, above: int) -> None:
        await self._ask(
            ScalingRequest(action="scale_up", count=count, wanted=above + count, **self._about)
        )

    async def stop(self, worker: Departing) -> None:
        leaving = WorkerToStop(
            id=worker.worker_id,
            name=worker.name,
            host=worker.host,
            pid=worker.pid,
            capabilities=worker.capabilities,
        )
        await self._ask(ScalingRequest(action="stop", count=1, worker=leaving, **self._about))

    async def close(self) -> None:
        await self._door.close()

    async def _ask(self, request: ScalingRequest) -> OutgoingAnswer:
        body = _encode(request)
        signature = sign([self._key], f"scaling_{uuid4().hex}", datetime.now(UTC), body)
        headers = {"content-type": "application/json", **signature}
        try:
            answer = await self._door.post(self._url, body, headers)
        except TargetRefused as error:
            raise ProviderFailed(
                f"the webhook at {self._url} is not reached: {error}; open its network with the "
                f"setting outgoing_networks"
            ) from None
        except TargetFailed as error:
            raise ProviderFailed(f"the webhook at {self._url} did not answer: {error}") from None
        if answer.is_success:
            return answer
        wait = answer.retry_after or ""
        raise ProviderFailed(
            f"the webhook at {self._url} answered {answer.status} to {request.action}",
            retry_after=float(wait) if wait.isdigit() else None,
        )
