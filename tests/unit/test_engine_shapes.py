"""The two engines have one shape: the same file for the same role, and no role that is another."""

import ast
from pathlib import Path

import pytest

import taskforge.storage

STORAGE = Path(next(iter(taskforge.storage.__path__)))
ENGINES = ("postgres", "sqlite")
MOST_LINES = 350
ROLES = {
    "engine", "connections", "catalog_cache", "inserts", "claims", "finishes", "beats",
    "job_changes", "queues", "workers", "assignments", "reads", "listing", "explain", "upkeep",
    "pruning", "records", "codec", "gates", "signals", "migrator",
}  # fmt: skip


def classes_of(engine: str) -> dict[str, ast.ClassDef]:
    """All but the errors, which are kinds of each other."""
    files = [file for file in (STORAGE / engine).glob("*.py") if file.stem != "refusals"]
    trees = [ast.parse(file.read_text(encoding="utf-8")) for file in files]
    nodes = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    return {node.name: node for node in nodes}


@pytest.mark.parametrize("engine", ENGINES)
def test_each_role_has_a_file_of_its_name(engine: str) -> None:
    assert {file.stem for file in (STORAGE / engine).glob("*.py")} >= ROLES


def test_no_file_of_storage_is_longer_than_one_can_keep_in_mind() -> None:
    files = {str(file): file.read_text(encoding="utf-8") for file in STORAGE.rglob("*.py")}
    assert len(files) > 50
    assert [name for name, text in files.items() if len(text.splitlines()) > MOST_LINES] == []


@pytest.mark.parametrize("engine", ENGINES)
def test_no_class_of_an_engine_inherits_from_another_of_it(engine: str) -> None:
    classes = classes_of(engine)
    assert f"{engine.capitalize()}Engine" in classes
    inherited = [
        f"{name} of {ast.unparse(base)}"
        for name, node in classes.items()
        for base in node.bases
        if ast.unparse(base) in classes
    ]
    assert inherited == []
