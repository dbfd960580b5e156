"""A TCP proxy on the loopback address that misbehaves on demand: slow, resetting, swallowing, or
deaf on one side."""

import asyncio
import contextlib
import random
from typing import Self


class FaultProxy:
    """Modes: `pass`; `slow` (each piece waits 100–300 ms); `reset` (connections break now and
    then); `blackhole` (nothing gets through, nobody is told); `half-open` (what the server says
    gets lost)."""

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.mode = "pass"
        self.address = ""
        self.faults = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()[:2]
        self.address = f"{host}:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            there, back = await asyncio.open_connection(*self._target)
        except OSError:
            writer.close()
            return
        pumps = [
            asyncio.create_task(self._pump(reader, back, up=True)),
            asyncio.create_task(self._pump(there, writer, up=False)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            for one in (writer, back):
                with contextlib.suppress(OSError):
                    one.close()
            self._tasks.discard(task)

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, up: bool
    ) -> None:
        while data := await reader.read(65_536):
            if self.mode == "slow":
                self.faults += 1
                await asyncio.sleep(random.uniform(0.1, 0.3))
            elif self.mode == "reset" and random.random() < 0.3:
                self.faults += 1
                writer.transport.abort()
                return
            elif self.mode == "blackhole" or (self.mode == "half-open" and not up):
                self.faults += 1
                while self.mode in ("blackhole", "half-open"):
                    await asyncio.sleep(0.05)
                return  # what was swallowed is gone: a connection that lost bytes cannot go on
            writer.write(data)
            await writer.drain()
