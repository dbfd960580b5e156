"""Fails when a document names what is not there: a link to nowhere, a file that has moved, a word
of the glossary that its file does not use, a package or a folder of tests without a place on the
map."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "taskforge"

LINK = re.compile(r"\]\(([^)\s]+)\)")
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)

# A path, or the name of a file alone; and several tests of one folder between one pair of ticks.
NAMED = re.compile(r"`((?:[\w.-]+/)+[\w.-]*|[\w.-]+\.(?:py|sql|md|toml|txt|json))`")
TESTS = re.compile(r"`(tests/[\w/]+(?:\.py)?(?: test_\w+\.py)*)`")
TEST_FUNCTION = re.compile(r"`(test_\w+)`")
PLACES = (ROOT, SOURCE, SOURCE / "storage" / "sqlite", SOURCE / "storage" / "postgres")
# Files that users write or that other tools would make.
ELSEWHERE = {"taskforge.toml", "uv.lock", "pylock.toml", "src/taskforge/api/dashboard/built"}

ENTRY = re.compile(r"^- \*\*(?P<word>[^*]+)\*\*: (?P<text>(?:.|\n(?!- |\n))+)", re.MULTILINE)
HOME = re.compile(r"`([\w/-]+\.(?:py|sql))`")


def read(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def pages() -> list[Path]:
    """Every page, for its links."""
    folders = (("", "*.md"), ("docs", "**/*.md"), ("examples", "**/*.md"))
    return sorted(page for folder, pattern in folders for page in (ROOT / folder).glob(pattern))


def contributors_pages() -> list[Path]:
    """The pages that name files of the source."""
    folders = [ROOT / "docs" / "how-to", ROOT / "docs" / "design"]
    below = [page for folder in folders for page in folder.rglob("*.md")]
    return sorted([ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", *below])


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        for heading in HEADING.findall(FENCED.sub("", read(page)))
    }


def broken_links(page: Path) -> list[str]:
    broken = []
    for link in LINK.findall(FENCED.sub("", read(page))):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    return broken


def is_defined(name: str) -> bool:
    """Whether `domain/changes.plan` is what `domain/changes.py` defines."""
    module, _, attribute = name.rpartition(".")
    file = SOURCE / f"{module}.py"
    definition = rf"^(?:class|(?:async )?def) {attribute}\b"
    return file.is_file() and bool(re.search(definition, read(file), re.MULTILINE))


def missing_files(page: Path) -> list[str]:
    text = read(page)
    names = {path.name for folder in ("src", "tests", "docs", "tools") for path in files(folder)}
    missing = [
        name
        for name in NAMED.findall(text)
        if not any((place / name).exists() for place in PLACES)
        and name not in ELSEWHERE | names
        and not is_defined(name)
    ]
    for named in TESTS.findall(text):
        first, *others = named.split()
        paths = (first, *(f"{Path(first).parent}/{other}" for other in others))
        missing += [path for path in paths if not (ROOT / path).exists()]
    return missing


def missing_tests(page: Path) -> list[str]:
    """Functions of tests that the page names and nobody defines."""
    tests = "\n".join(read(file) for file in files("tests") if file.suffix == ".py")
    return [name for name in TEST_FUNCTION.findall(read(page)) if f"def {name}(" not in tests]


def files(folder: str) -> Iterator[Path]:
    return (path for path in (ROOT / folder).rglob("*.*") if "__pycache__" not in path.parts)


def glossary() -> list[tuple[str, str]]:
    """Each word with what is said of it."""
    text = read(ROOT / "docs" / "glossary.md")
    return [(match["word"], match["text"]) for match in ENTRY.finditer(text)]


def fault_of(word: str, text: str) -> str | None:
    """What is wrong with an entry of the glossary, if something is."""
    homes = HOME.findall(text)
    if not homes:
        return "names no file"
    if absent := [file for file in homes if not (SOURCE / file).is_file()]:
        return f"names {', '.join(absent)}, which is not there"
    contents = "\n".join(file + read(SOURCE / file) for file in homes).lower()
    if any(part not in contents for part in word.split()):
        return f"is not used in {', '.join(homes)}"
    return None


def unmapped() -> list[str]:
    """Packages, modules of engines and folders of tests that ARCHITECTURE.md's map leaves out."""
    the_map = read(ROOT / "ARCHITECTURE.md").split("```")[1]
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    folders = {path.parent.name for path in (ROOT / "tests").glob("*/test_*.py")}
    shown = set(re.findall(r"\w+", the_map[the_map.index("tests/") :]))
    left_out = [f"src/taskforge/{name}" for name in packages if f"  {name}/" not in the_map]
    words = set(re.findall(r"\w+", the_map))
    left_out += [
        f"storage/{engine}/{path.name}"
        for engine in ("postgres", "sqlite")
        for path in (SOURCE / "storage" / engine).glob("*.py")
        if path.stem not in words | {"__init__"}
    ]
    return sorted(left_out + [f"tests/{name}" for name in folders - shown])


def faults() -> Iterator[str]:
    for page in pages():
        yield from (f"{page.relative_to(ROOT)}: links to {link}" for link in broken_links(page))
    for page in contributors_pages():
        absent = missing_files(page) + missing_tests(page)
        yield from (f"{page.relative_to(ROOT)}: names {name}" for name in absent)
    for word, text in glossary():
        if fault := fault_of(word, text):
            yield f"docs/glossary.md: {word} {fault}"
    yield from (f"ARCHITECTURE.md: the map leaves {name} out" for name in unmapped())


def main() -> int:
    found = list(faults())
    for fault in found:
        print(f"error: {fault}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
