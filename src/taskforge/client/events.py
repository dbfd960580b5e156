"""The stream of events of a server elsewhere. A stream that breaks goes on where it was."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from urllib.parse import urlencode

from taskforge.client.transport import Transport
from taskforge.domain.errors import StoreUnavailable
from taskforge.domain.retry import Patience


async def stream_events(
    transport: Transport, after: str | None, topic: str = "", queues: Sequence[str] = ()
) -> AsyncIterator[tuple[str, str]]:
    """The cursor and the data of each."""
    cursor, patience = after or "", Patience()
    query = urlencode([("topic", topic)] * bool(topic) + [("queue", one) for one in queues])
    path = f"/events?{query}" if query else "/events"
    while True:
        identifier = data = ""
        try:
            async for line in transport.lines(path, {"last-event-id": cursor} if cursor else {}):
                patience.forget()
                name, _, value = line.partition(":")
                value = value.removeprefix(" ")
                if name == "id":
                    identifier = cursor = value
                elif name == "data":
                    data = value
                elif not line and data:
                    yield identifier, data
                    data = ""
        except StoreUnavailable as error:
            await asyncio.sleep(patience.wait(error.asked_for))
