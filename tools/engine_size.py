"""Fails when the engine interface, or a source file, has grown beyond what one can keep in mind."""

import ast
import sys
from pathlib import Path

MOST_METHODS = 33
MOST_LINES = 500
NOTED_LINES = 400


def public_methods(source: str) -> list[str]:
    """Names of the public methods of `class Engine(Protocol)`."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef) and node.name == "Engine":
            methods = (each.name for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))
            return [name for name in methods if not name.startswith("_")]
    raise LookupError("no class Engine")


def main(root: Path) -> int:
    failures = []
    engine = root / "storage" / "engine.py"
    count = len(public_methods(engine.read_text()))
    print(f"{engine}: Engine has {count} public methods, {MOST_METHODS} at most")
    if count > MOST_METHODS:
        failures.append(f"{engine}: {count} public methods, {MOST_METHODS} at most")
    for path in sorted(root.rglob("*.py")):
        lines = len(path.read_text().splitlines())
        if lines > MOST_LINES:
            failures.append(f"{path}: {lines} lines, {MOST_LINES} at most")
        elif lines > NOTED_LINES:
            print(f"note: {path} has {lines} lines; look for the seam")
    for failure in failures:
        print(f"error: {failure}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(Path("src/taskforge")))
