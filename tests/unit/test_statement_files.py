"""Every statement is a file with a header that some call uses, and no SQL stands in Python;
migrations have the same names on both engines."""

import ast
import re
from collections.abc import Iterator
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
        file.stem: file.read_text(encoding="utf-8")
        for file in (STORAGE / engine / "sql").glob("*.sql")
    }


# How a text begins that a store is to run, or that makes one longer.
SQL = re.compile(
    r"\s*(?:select\b|insert (?:into|or)\b|update \w|delete from|with \w+ as\b|pragma\b|union\b"
    r"|(?:create|drop|alter|lock|set local|listen|notify|vacuum|analyze|values|returning) [\w\"{(]"
    r"|(?:and|or|where|on|having|order by|limit) [\w.{}]+ (?:=|<|>|in\b|is\b|between\b|any\b)"
    r"|(?:begin|commit|rollback|savepoint|release)(?:\s|;|$))",
    re.IGNORECASE,
)
# What may stand in Python: the filter builders; the words of a transaction; how settings of a
# connection of SQLite are set and read; and what is told to people.
BUILDERS = {"postgres/listing.py", "sqlite/listing.py"}
IN_PYTHON = {
    *("begin", "begin immediate", "commit", "rollback"),
    *("savepoint call", "rollback to call", "release call"),
    "pragma {}",
    "vacuum {}.{}, and see what holds it up",
    "create the database (`createdb`), or name another one in the URL",
}


def sql_in(file: Path) -> Iterator[str]:
    """The texts of a Python file that are SQL, or pieces of it."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    skipped = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        for part in node.values
    }
    skipped |= {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.JoinedStr):
            text = "".join(
                part.value if isinstance(part, ast.Constant) else "{}" for part in node.values
            )  # type: ignore[misc]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        else:
            continue
        if SQL.match(text):
            yield text


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
    assert names - set(re.findall(r"\"(\w+)\"", source)) == set()
    assert re.findall(r"sql\(f\".*", source) == [], "a search does not find a name put together"
    assert set(re.findall(r"\bsql\(\"(\w+)\"\)", source)) - names == set()


def test_no_sql_stands_in_python_but_where_filters_are_put_together() -> None:
    found = {
        f"{file.relative_to(STORAGE).as_posix()}: {text}"
        for file in STORAGE.rglob("*.py")
        if file.relative_to(STORAGE).as_posix() not in BUILDERS
        for text in sql_in(file)
        if text not in IN_PYTHON
    }
    assert found == set()


@pytest.mark.parametrize(
    "line",
    [
        'sql("end") + " and worker = ?"',
        "f'delete from {table} where fence = ?'",
        '"""\n    select 1"""',
        "f'set local lock_timeout = {seconds}'",
        'text + f"\\nreturning pg_notify({channel})"',
    ],
)
def test_sql_in_python_is_found(line: str, tmp_path: Path) -> None:
    (tmp_path / "claims.py").write_text(f'"""Select jobs."""\nTEXT = {line}\n')
    assert len(list(sql_in(tmp_path / "claims.py"))) == 1


@pytest.mark.parametrize("engine", ENGINES)
def test_every_part_has_a_header_and_several_statements_include_it(engine: str) -> None:
    folder = STORAGE / engine / "sql" / "parts"
    parts = {file.stem: file.read_text(encoding="utf-8") for file in folder.glob("*.sql")}
    included = [
        name
        for text in statements(engine).values()
        for name in re.findall(r"^-- include: (.+)$", text, re.MULTILINE)
    ]
    assert {name for name, text in parts.items() if not text.startswith("-- ")} == set()
    assert set(included) == {name for name in parts if included.count(name) > 1}


@pytest.mark.parametrize("engine", ENGINES)
def test_every_statement_that_a_record_calls_is_there(engine: str) -> None:
    called = set(re.findall(r"(?:Step\(|look\(\s*\w+,)\s*\"(\w+)\"", python(".")))
    assert len(called) > 50
    assert called - set(statements(".")) - set(statements(engine)) == set()


def test_migrations_have_the_same_numbers_and_names_on_both_engines() -> None:
    names = [[(each.number, each.name) for each in MIGRATIONS[engine]] for engine in ENGINES]
    assert names[0] == names[1]
