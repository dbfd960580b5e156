"""Writes docs/reference/settings.md from the comments in settings.py and queue.py; `--check` fails
when it is out of date."""

import re
import sys
from pathlib import Path

from taskforge.domain.queue import QueueSettings
from taskforge.setting_sources import PREFIX
from taskforge.settings import Settings

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "settings.md"
FIELD = re.compile(r"^(?P<comment>(?:    # .+\n)+)    (?P<name>\w+): [^=\n]+ = ", re.MULTILINE)


def joined(comment: str) -> str:
    """The lines of a comment as one."""
    return " ".join(line.strip().removeprefix("# ") for line in comment.splitlines())


def table(source: Path, defaults: Settings | QueueSettings, *, environment: bool) -> str:
    """One row for each field; a field without a comment fails here, and so is never left
    undocumented."""
    text = source.read_text(encoding="utf-8")
    found = {match["name"]: joined(match["comment"]) for match in FIELD.finditer(text)}
    missing = [name for name in defaults.__struct_fields__ if name not in found]
    if missing:
        raise SystemExit(f"{source.name}: no comment above {', '.join(missing)}")
    head = (
        "| setting | default | environment | what it does |\n|---|---|---|---|"
        if environment
        else "| setting | default | what it does |\n|---|---|---|"
    )
    rows = []
    for name in defaults.__struct_fields__:
        value = getattr(defaults, name)
        shown = (
            "none"
            if value is None
            else str(value).lower()
            if isinstance(value, bool)
            else f"{value:g}"
            if isinstance(value, float)
            else str(value)
        )
        middle = f" `{PREFIX}{name.upper()}` |" if environment else ""
        rows.append(f"| `{name}` | {shown} |{middle} {found[name]} |")
    return "\n".join([head, *rows])


def page() -> str:
    source = ROOT / "src" / "taskforge"
    return f"""# Settings

Written by `tools/settings_reference.py`; `make check` fails when it is out of date.

## Of a process

From `taskforge.toml` in the working folder, overridden by the environment, overridden by flags or
by arguments of `TaskForge(…)`.
An unknown name is an error that names the nearest known one. `taskforge config check` shows every
value and where it came from.
Variables that Kubernetes makes for a service named `taskforge` are passed over.

{table(source / "settings.py", Settings(), environment=True)}

## Of a queue

Given to `forge.queue("name", …)` or `taskforge queues create`, and kept in the store. All are
optional and checked; an unknown one is an error that names the nearest known one.

{table(source / "domain" / "queue.py", QueueSettings(), environment=False)}
"""


def main() -> None:
    wanted = page()
    if "--check" in sys.argv[1:]:
        if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != wanted:
            raise SystemExit("docs/reference/settings.md is out of date; run `make docs`")
        return
    PAGE.write_text(wanted, encoding="utf-8")


if __name__ == "__main__":
    main()
