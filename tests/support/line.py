"""One kept connection that sends exactly the bytes it is given: what an HTTP library would mend or
refuse itself."""

import asyncio
from typing import Self
from urllib.parse import urlsplit

Headers = list[tuple[bytes, bytes]]


class Line:
    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        self._host, self._port = parts.hostname, parts.port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.hang_up()

    async def hang_up(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None

    async def ask(
        self, method: str, path: str, headers: Headers, body: bytes | None = None
    ) -> tuple[int, bytes]:
        """The status and the body of the answer; of a stream only the status. The server may refuse
        before all was sent."""
        if self._streams is None:
            self._streams = await asyncio.open_connection(self._host, self._port)
        reader, writer = self._streams
        more: Headers = (
            []
            if body is None
            else [
                (b"content-type", b"application/json"),
                (b"content-length", str(len(body)).encode()),
            ]
        )
        lines = [f"{method} {path} HTTP/1.1".encode(), b"host: localhost"]
        lines += [name + b": " + value for name, value in [*headers, *more]]
        try:
            writer.write(b"\r\n".join(lines) + b"\r\n\r\n" + (body or b""))
            head = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)).lower()
        except (ConnectionError, asyncio.IncompleteReadError):
            await self.hang_up()
            return 0, b"hung up"
        status = int(head.split(b" ", 2)[1])
        length = next(
            (line[15:] for line in head.split(b"\r\n") if line.startswith(b"content-length:")), None
        )
        if length is None and status not in (204, 304):
            await self.hang_up()
            return status, b""
        try:
            answer = await reader.readexactly(int(length or 0))
        except (ConnectionError, asyncio.IncompleteReadError):
            answer = b"hung up"
        if answer == b"hung up" or b"\r\nconnection: close" in head:
            await self.hang_up()
        return status, answer
