"""Fails when a file is tracked at the root of the repository that nobody has named here."""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
NAMED = frozenset(
    {
        ".ci",
        ".gitignore",
        "ARCHITECTURE.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "LICENSE",
        "Makefile",
        "README.md",
        "bench",
        "dashboard",
        "docs",
        "examples",
        "pyproject.toml",
        "requirements.lock",
        "src",
        "tests",
        "tools",
    }
)


def unnamed(tracked: Sequence[str]) -> list[str]:
    """The files and folders at the root of these paths that `NAMED` does not list."""
    return sorted({path.split("/", 1)[0] for path in tracked} - NAMED)


def tracked_paths(root: Path) -> list[str]:
    """What git tracks here; nothing outside a checkout, as in an unpacked archive, or without
    git."""
    git = shutil.which("git")
    if git is None or not (root / ".git").exists():
        return []
    listing = subprocess.run(
        [git, "ls-files", "-z"], cwd=root, check=False, capture_output=True, text=True
    )
    if listing.returncode != 0:
        # git reads no checkout that belongs to another user
        print(f"note: the root is not checked: {listing.stderr.strip()}")
    return [path for path in listing.stdout.split("\0") if path]


def main(root: Path = ROOT) -> int:
    strays = unnamed(tracked_paths(root))
    for name in strays:
        print(
            f"error: {name}: nobody has named it; remove it, or add it to tools/root_files.py",
            file=sys.stderr,
        )
    return 1 if strays else 0


if __name__ == "__main__":
    sys.exit(main())
