"""Fails when a port, or a source file, has grown beyond what one can keep in mind."""

import ast
import sys
from pathlib import Path

MOST_METHODS = 8
MOST_LINES = 349
NOTED_LINES = 330


def ports_in(source: str) -> dict[str, int]:
    """How many methods each Protocol of a module names itself."""
    return {
        node.name: sum(
            isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) for each in node.body
        )
        for node in ast.parse(source).body
        if isinstance(node, ast.ClassDef)
        and any(isinstance(base, ast.Name) and base.id == "Protocol" for base in node.bases)
    }


def main(root: Path) -> int:
    failures = []
    for path in sorted((root / "ports").glob("*.py")):
        for name, methods in ports_in(path.read_text()).items():
            if methods:
                print(f"{path}: {name} has {methods} methods, {MOST_METHODS} at most")
            if methods > MOST_METHODS:
                failures.append(f"{path}: {name} has {methods} methods, {MOST_METHODS} at most")
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
