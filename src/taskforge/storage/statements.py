"""SQL lives in files, one statement each; this reads them."""

import re
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

import msgspec


class Migration(msgspec.Struct, frozen=True):
    number: int
    name: str
    sql: str


SHARED = "taskforge.storage"
_INCLUDE = re.compile(r"^-- include: (\w+)\n", re.MULTILINE)
_COMMENT = re.compile(r"^--.*\n", re.MULTILINE)


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
    not read that one's. Several may begin or end alike: `-- include: name`, on a line of its own,
    is the text in `sql/parts/name.sql`."""
    folder = files(package).joinpath("sql")
    parts = _texts(folder.joinpath("parts"))
    return {
        name: _COMMENT.sub("", _INCLUDE.sub(lambda line: parts[line[1]], text)).strip()
        for name, text in _texts(folder).items()
    }


def _texts(folder: Traversable) -> dict[str, str]:
    if not folder.is_dir():
        return {}
    return {
        file.name.removesuffix(".sql"): file.read_text(encoding="utf-8")
        for file in folder.iterdir()
        if file.name.endswith(".sql")
    }


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
