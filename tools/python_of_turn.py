"""Which Python the tests run on this time: of those that pyproject.toml names,
the ones found here take turns.

Each stays for three commits, in which every row that takes turns has run (tests/conftest.py).

    make test PYTHON="$(python3 tools/python_of_turn.py)" VENV=.venv-turn
"""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
TURNS = 3


def versions() -> list[str]:
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    return [
        match[1]
        for line in classifiers
        if (match := re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", line))
    ]


def interpreter(version: str) -> str | None:
    """One that runs and can make virtual environments: on the path, or where pyenv keeps those that
    are not."""
    kept = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = [
        shutil.which(f"python{version}"),
        *map(str, sorted(kept.glob(f"{version}.*/bin/python{version}"), reverse=True)),
    ]
    return next((one for one in found if one is not None and _works(one)), None)


def _works(python: str) -> bool:
    return (
        subprocess.run(
            [python, "-c", "import ensurepip, venv"], capture_output=True, check=False
        ).returncode
        == 0
    )


def of_turn(present: Sequence[str], commits: int) -> str:
    return present[commits // TURNS % len(present)]


def main() -> None:
    counted = subprocess.run(
        ["git", "rev-list", "--count", "HEAD"],  # noqa: S607
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    present = [found for version in versions() if (found := interpreter(version)) is not None] or [
        sys.executable
    ]
    print(of_turn(present, int(counted.stdout or 0)))


if __name__ == "__main__":
    main()
