"""ARCHITECTURE.md names the files through which a job goes; their imports say whether it does."""

import ast
import re
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "taskforge"
# What HTTP is on the path: the table of what a server answers, and what a worker asks with.
SERVER, CLIENT = "api/entry/hot_routes.py", "taskforge.client"
REMOTE_ENGINE, PLATFORM = "client/remote.py", "operations/platform.py"
MOST = {"In one process": 7, "Over HTTP": 12}
BEGIN = {"enqueue": "sdk/jobs.py", "claim": "fetcher.py", "run and finish": "fetcher.py"}
END = {"enqueue": "insert", "claim": "claim", "run and finish": "finish"}

LEG = re.compile(r"^- ([a-z ]+): ((?:.|\n(?!- |\n))+)", re.MULTILINE)
STOP = re.compile(r"(→|⇒)?\s*(?:\*\*engine\.(\w+)\*\*|(?:`(\w+)` in )?`([\w/]+\.py)`)")


class Stop(NamedTuple):
    arrow: str  # that leads to it
    engine: str  # what the engine is asked for, where this is the engine
    symbol: str  # of the file, where only one thing in it is on the path
    file: str


def legs_of(heading: str) -> dict[str, list[Stop]]:
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    section = page.partition(f"### {heading}\n")[2].partition("\n#")[0]
    return {
        name: [Stop(*found) for found in STOP.findall(text)] for name, text in LEG.findall(section)
    }


@cache
def tree(file: str) -> ast.Module:
    return ast.parse((SOURCE / file).read_text(encoding="utf-8"))


def module_of(file: str) -> str:
    return "taskforge." + file.removesuffix(".py").replace("/", ".")


@cache
def imports(file: str) -> set[tuple[str, str]]:
    """Every module that a file imports, and what of it; a class has what its base has."""
    found = set()
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                found |= {(node.module, alias.name), (f"{node.module}.{alias.name}", "")}
    bases = {
        base.id
        for node in tree(file).body
        if isinstance(node, ast.ClassDef)
        for base in node.bases
        if isinstance(base, ast.Name)
    }
    for module, name in list(found):
        if name in bases and module.startswith("taskforge."):
            found |= imports(module.removeprefix("taskforge.").replace(".", "/") + ".py")
    return found


@cache
def calls(file: str) -> set[tuple[str, str]]:
    """The methods that a file calls, and the name of what it calls them on; not those of a
    module."""
    modules = {module.rpartition(".")[2] for module, name in imports(file) if not name}
    found = set()
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            on = node.func.value
            name = getattr(on, "attr", getattr(on, "id", ""))
            if not (isinstance(on, ast.Name) and name in modules):
                found.add((name, node.func.attr))
    return found


@cache
def methods(file: str) -> set[str]:
    return {
        member.name
        for node in tree(file).body
        if isinstance(node, ast.ClassDef)
        for member in node.body
        if isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def imports_from(file: str, other: str, symbol: str = "") -> bool:
    return any(
        module == module_of(other) and (not symbol or name == symbol)
        for module, name in imports(file)
    )


@cache
def port_calls(file: str) -> set[str]:
    """The methods of ports that a file calls, if it names a port."""
    if not any(module.startswith("taskforge.ports.") for module, _ in imports(file)):
        return set()
    ports = [f"ports/{path.name}" for path in (SOURCE / "ports").glob("*.py")]
    return {method for _, method in calls(file)} & set().union(*map(methods, ports))


def uses_of_the_platform(file: str) -> set[str]:
    """The modules whose objects a file reaches as `….platform.<name>`."""
    names = {
        node.attr
        for node in ast.walk(tree(file))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Attribute)
        and node.value.attr == "platform"
    }
    kinds = {
        node.value.func.id
        for node in ast.walk(tree(PLATFORM))
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Attribute)
        and node.targets[0].attr in names
        and isinstance(node.value, ast.Call)
        and isinstance(node.value.func, ast.Name)
    }
    return {module for module, name in imports(PLATFORM) if name in kinds}


def leads(before: Stop, after: Stop) -> bool:
    """Whether the first of two stops brings the second about."""
    if after.arrow == "⇒":
        asks = (
            before.engine in methods(REMOTE_ENGINE)
            if before.engine
            else any(module.startswith(CLIENT) for module, _ in imports(before.file))
        )
        return asks and imports_from(SERVER, after.file)
    if after.engine:
        return bool(before.file) and asks_engine(before.file, after.engine)
    if before.engine:
        return False
    if imports_from(before.file, after.file, after.symbol):
        return True
    if module_of(after.file) in uses_of_the_platform(before.file):
        return True
    return not after.symbol and bool(port_calls(before.file) & methods(after.file))


def asks_engine(file: str, verb: str) -> bool:
    """By itself; what was decided goes back to who asked for the decision."""
    asker = "operations/work/completion.py" if file == "domain/outcome.py" else file
    return imports_from(asker, "ports/engine.py") and any(
        method == verb and name.strip("_") == "engine" for name, method in calls(asker)
    )


def faults(name: str, leg: list[Stop]) -> list[str]:
    found = [f"{stop.file} is not there" for stop in leg if stop.file and not _is_there(stop)]
    if found or len(leg) < 2:
        return found or ["there is no leg"]
    if not leg[0].file.endswith(BEGIN[name]):
        found.append(f"it begins with {leg[0]}")
    if leg[-1].engine != END[name]:
        found.append(f"it ends with {leg[-1]}")
    if name == "run and finish" and "decide" not in {stop.symbol for stop in leg}:
        found.append("nothing decides")
    found += [
        f"{one.file or one.engine} does not lead to {other.file or other.engine}"
        for one, other in pairwise(leg)
        if not leads(one, other)
    ]
    found += [
        f"{leg[index].file} is surplus: it could be left out"
        for index in range(1, len(leg) - 1)
        if leg[index].file and not leg[index].symbol and leads(leg[index - 1], leg[index + 1])
    ]
    return found


def _is_there(stop: Stop) -> bool:
    return (SOURCE / stop.file).is_file()


ALL = [(heading, name) for heading in MOST for name in BEGIN]


@pytest.mark.parametrize(("heading", "name"), ALL)
def test_every_file_of_the_path_leads_to_the_next(heading: str, name: str) -> None:
    assert faults(name, legs_of(heading)[name]) == []


@pytest.mark.parametrize("heading", MOST)
def test_the_path_is_short(heading: str) -> None:
    files = {stop.file for leg in legs_of(heading).values() for stop in leg if stop.file}
    assert 5 <= len(files) <= MOST[heading]


@pytest.mark.parametrize(("heading", "name"), ALL)
def test_a_file_that_is_missing_is_missed(heading: str, name: str) -> None:
    leg = legs_of(heading)[name]
    for index in range(len(leg)):
        assert faults(name, leg[:index] + leg[index + 1 :]), leg[index]


@pytest.mark.parametrize(("heading", "name"), ALL)
@pytest.mark.parametrize(
    "surplus", ["sdk/app.py", "worker/worker.py", "wiring.py", "operations/platform.py", "node.py"]
)
def test_a_file_that_is_surplus_is_found(heading: str, name: str, surplus: str) -> None:
    leg = legs_of(heading)[name]
    for index in range(1, len(leg) + 1):
        assert faults(name, [*leg[:index], Stop("→", "", "", surplus), *leg[index:]]), index
