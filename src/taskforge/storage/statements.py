"""SQL lives in files, one statement each; this reads them."""

import re
from functools import cache
from importlib.resources import files

import msgspec


class Migration(msgspec.Struct, frozen=True):
    number: int
    name: str
    sql: str


SHARED = "taskforge.storage"


def statement(package: str, name: str) -> str:
    """The statement in `<package>/sql/<name>.sql`, or else the one that the engines share, without
    its header, so that the store's logs show the statement alone."""
    own = statements_of(package)
    return own[name] if name in own else statements_of(SHARED)[name]


def put_in(text: str, **names: str) -> str:
    """The statement with these in place of the words in capitals: names and lists, for which SQL
    has no parameters. Never a value that somebody sent."""
    for word, name in names.items():
        text = text.replace(word, name)
    return text


@cache
def statements_of(package: str) -> dict[str, str]:
    """All of them at once: a process that runs on while another release is installed under it must
    not read that one's."""
    found = {}
    for file in files(package).joinpath("sql").iterdir():
        name, dot, kind = file.name.rpartition(".")
        if dot and kind == "sql":
            found[name] = re.sub(
                r"^--.*\n", "", file.read_text(encoding="utf-8"), flags=re.MULTILINE
            ).strip()
    return found


@cache
def migrations(package: str) -> tuple[Migration, ...]:
    """The numbered files in `<package>/migrations`, in order, without gaps."""
    found = []
    for file in files(package).joinpath("migrations").iterdir():
        matched = re.fullmatch(r"(\d{4})_([a-z0-9_]+)\.sql", file.name)
        if matched:
            found.append(Migration(int(matched[1]), matched[2], file.read_text(encoding="utf-8")))
    found.sort(key=lambda migration: migration.number)
    numbers = [migration.number for migration in found]
    if numbers != list(range(1, len(found) + 1)):
        raise ValueError(f"migrations of {package} are not numbered without gaps: {numbers}")
    return tuple(found)
