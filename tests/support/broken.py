"""Statements of an engine, broken by edits of their text: what a twin of it is made of."""

import importlib
from collections.abc import Callable

import pytest

MODULES = {
    "sqlite": "taskforge.storage.sqlite.catalog_cache",
    "postgres": "taskforge.storage.postgres.connections",
}
Edits = dict[str, list[tuple[str, str]]]


def break_statements(monkeypatch: pytest.MonkeyPatch, module: str, edits: Edits) -> None:
    loader = importlib.import_module(module)
    whole: Callable[[str, str], str] = loader.statement
    # Looked at here, before anybody expects a check to fail: a twin that broke nothing would not be
    # caught by it.
    if misfits(module, edits):
        pytest.skip("the twin no longer fits: test_every_twin_fits says why")

    def broken(package: str, name: str) -> str:
        text = whole(package, name)
        for old, new in edits.get(name, []):
            text = text.replace(old, new)
        return text

    monkeypatch.setattr(loader, "statement", broken)


def misfits(module: str, edits: Edits) -> list[str]:
    """Where an edit finds nothing to replace, and what it looked for."""
    package, loader = module.rpartition(".")[0], importlib.import_module(module)
    texts = {name: loader.statement(package, name) for name in edits}
    return [
        f"{name}.sql has no {old!r}"
        for name, replaced in edits.items()
        for old, _ in replaced
        if old not in texts[name]
    ]
