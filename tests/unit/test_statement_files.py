"""Every statement is a file with a header that some call uses; migrations have the same names on
both engines."""

import re
from pathlib import Path

import pytest

from taskforge.storage.statements import migrations

STORAGE = Path(__file__).parents[2] / "src" / "taskforge" / "storage"
ENGINES = ["postgres", "sqlite"]
# where statements stand, and where they are called: those of records by both engines
FOLDERS = {".": ["records"], "postgres": ["postgres", "records"], "sqlite": ["sqlite", "records"]}
MIGRATIONS = {engine: migrations(f"taskforge.storage.{engine}") for engine in ENGINES}


def statements(engine: str) -> dict[str, str]:
    return {
        file.stem: file.read_text(encoding="utf-8") for file in (STORAGE / engine / "sql").iterdir()
    }


def python(folder: str) -> str:
    callers = [file for place in FOLDERS[folder] for file in (STORAGE / place).glob("*.py")]
    return "\n".join(file.read_text(encoding="utf-8") for file in callers)


@pytest.mark.parametrize("engine", FOLDERS)
def test_a_statement_begins_with_what_it_is_for(engine: str) -> None:
    assert [name for name, text in statements(engine).items() if not text.startswith("-- ")] == []


def test_the_header_of_a_shared_statement_names_its_values() -> None:
    for name, text in statements(".").items():
        header = "\n".join(line for line in text.splitlines() if line.startswith("--"))
        body = text.replace(header, "")
        assert set(re.findall(r"\$\d+", body)) == set(re.findall(r"\$\d+", header)), name


@pytest.mark.parametrize("engine", FOLDERS)
def test_every_statement_is_used_and_every_one_that_is_used_is_there(engine: str) -> None:
    source, names = python(engine), set(statements(engine))
    quoted = set(re.findall(r"\"(\w+)\"", source))
    made = [
        re.sub(r"\{[^}]*\}", r"\\w+", text) for text in re.findall(r"sql\(f\"(.+?)\"\)", source)
    ]
    unused = {name for name in names - quoted if not any(re.fullmatch(text, name) for text in made)}
    assert unused == set()
    assert set(re.findall(r"\bsql\(\"(\w+)\"\)", source)) - names == set()


@pytest.mark.parametrize("engine", ENGINES)
def test_every_statement_that_a_record_calls_is_there(engine: str) -> None:
    called = set(re.findall(r"(?:Step\(|look\(\s*\w+,)\s*\"(\w+)\"", python(".")))
    assert len(called) > 50
    assert called - set(statements(".")) - set(statements(engine)) == set()


def test_migrations_have_the_same_numbers_and_names_on_both_engines() -> None:
    names = [[(each.number, each.name) for each in MIGRATIONS[engine]] for engine in ENGINES]
    assert names[0] == names[1]
