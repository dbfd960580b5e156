"""Statements that only a test needs, in the dialect that both engines share."""

import hashlib
from typing import Any

from taskforge.ports.records import Step
from taskforge.storage.statements import SHARED, statements_of


def step_of(text: str, *values: Any) -> Step:
    """A step that runs this text: it is put beside the statements that are files."""
    name = f"test_{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    statements_of(SHARED)[name] = text
    return Step(name, values)
