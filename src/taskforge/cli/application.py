"""Finding the user's app object: `app:forge` names the module and the TaskForge in it."""

import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from taskforge.cli.failure import CommandError
from taskforge.cli.store import Store
from taskforge.domain.errors import TaskForgeError, nearest

if TYPE_CHECKING:
    from taskforge.sdk.app import TaskForge


def load(reference: str, store: Store) -> "TaskForge":
    """Import the app; --url and --schema win over what it was made with."""
    module_name, _, attribute = reference.partition(":")
    check_module(module_name, reference)
    if module_name.endswith(".py"):
        module_name = module_name.removesuffix(".py").replace("/", ".")
    forge = _pick(_import(module_name, reference), attribute, reference)
    forge.settings = forge.settings.changed(url=store.url, schema=store.schema)
    return forge


def check_module(name: str, reference: str) -> None:
    if not name.strip():
        raise CommandError(
            f"{reference!r} names no module",
            "put the module before the colon, such as app:forge for app.py",
        )


def _import(name: str, reference: str) -> Any:
    # As `python -m` does: the folder that one stands in comes first.
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(error.name + ".")):
            raise CommandError(
                f"{name} was found, but it imports {error.name!r}, which is not installed",
                f"install {error.name}, then try again",
            ) from error
        near = nearest(name, (path.stem for path in Path.cwd().glob("*.py")))
        known = (
            f"did you mean {near}:forge?"
            if near
            else f"run the command in the folder that holds {name.partition('.')[0]}.py"
        )
        raise CommandError(f"there is no module {name!r} ({reference})", known) from None
    except TaskForgeError:
        raise
    except Exception as error:
        raise CommandError(
            f"{name} cannot be imported: {type(error).__name__}: {error}",
            f"see why with `python -c 'import {name}'`",
        ) from error


def _pick(module: Any, attribute: str, reference: str) -> "TaskForge":
    from taskforge.sdk.app import TaskForge  # noqa: PLC0415 - the app has it loaded by now; a mistyped name need not wait for it

    known = [name for name, value in vars(module).items() if isinstance(value, TaskForge)]
    if not attribute and len(known) == 1:
        attribute = known[0]
    found = getattr(module, attribute, None) if attribute else None
    if isinstance(found, TaskForge):
        return found
    if not known:
        raise CommandError(
            f"{module.__name__} holds no TaskForge object",
            'make one there: forge = TaskForge("sqlite:///jobs.db")',
        )
    choices = " or ".join(f"{module.__name__}:{name}" for name in known)
    raise CommandError(f"{reference!r} names no TaskForge object", f"use {choices}")
