"""One name, one thing."""

import ast
from collections import defaultdict
from pathlib import Path

TESTS = Path(__file__).parents[1]
SOURCE = TESTS.parent / "src" / "taskforge"


def test_no_second_public_class_has_the_name_of_another() -> None:
    """The same role in both engines is one thing: the same file, the same name."""
    places: dict[str, set[str]] = defaultdict(set)
    for path in SOURCE.rglob("*.py"):
        place = (
            str(path.relative_to(SOURCE)).replace("/postgres/", "/*/").replace("/sqlite/", "/*/")
        )
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].add(place)
    assert {name for name, found in places.items() if len(found) > 1} == set()


def test_the_same_role_has_the_same_file_name_in_both_engines() -> None:
    postgres, sqlite = (
        {path.name for path in (SOURCE / "storage" / engine).glob("*.py")} - {"__init__.py"}
        for engine in ("postgres", "sqlite")
    )
    roles = {
        "assignments.py",
        "beats.py",
        "catalog_cache.py",
        "claims.py",
        "codec.py",
        "connections.py",
        "engine.py",
        "explain.py",
        "finishes.py",
        "gates.py",
        "inserts.py",
        "job_changes.py",
        "listing.py",
        "migrator.py",
        "pruning.py",
        "queues.py",
        "reads.py",
        "records.py",
        "signals.py",
        "upkeep.py",
        "workers.py",
    }
    assert roles <= postgres & sqlite


def test_no_role_of_an_engine_inherits_from_another() -> None:
    for engine in ("postgres", "sqlite"):
        own: dict[str, str] = {}
        bases: list[tuple[str, str]] = []
        for path in (SOURCE / "storage" / engine).glob("*.py"):
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.ClassDef):
                    own[node.name] = path.name
                    bases += [
                        (node.name, base.id) for base in node.bases if isinstance(base, ast.Name)
                    ]
        crossing = {
            (child, base) for child, base in bases if base in own and own[base] != own[child]
        }
        assert crossing <= {("ClaimsInTheWay", "Disturbed")}  # errors, no roles


def test_no_two_helpers_of_the_tests_share_the_name_of_a_class() -> None:
    """What a test module keeps for itself is its own affair."""
    places: dict[str, list[str]] = defaultdict(list)
    for path in TESTS.rglob("*.py"):
        if not path.name.startswith("test_"):
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.ClassDef):
                    places[node.name].append(str(path.relative_to(TESTS)))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
