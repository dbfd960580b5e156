"""HTML that cannot be broken out of: whatever is not markup already is escaped where it is put
in."""

import hashlib
import html
import re
from functools import cache
from pathlib import Path

from taskforge.version import __version__

_VOID = ("input", "link", "meta", "br")
_PLACE = Path(__file__).parent


class Html(str):
    """Text that is markup already."""

    __slots__ = ()


def escaped(text: str) -> Html:
    return text if isinstance(text, Html) else Html(html.escape(text))


def element(name: str, /, *children: str, **attributes: str | bool) -> Html:
    """`class_` and `for_` are written so because the plain words are Python's; True is an attribute
    without a value."""
    written = "".join(
        f" {key.rstrip('_').replace('_', '-')}"
        + ("" if value is True else f'="{html.escape(str(value))}"')
        for key, value in attributes.items()
        if value is not False
    )
    if name in _VOID:
        return Html(f"<{name}{written}>")
    return Html(f"<{name}{written}>{joined(*children)}</{name}>")


def joined(*children: str) -> Html:
    return Html("".join(escaped(one) for one in children))


def prose(text: str) -> Html:
    """A line of a description, where `this` is code."""
    parts = re.split(r"`([^`]+)`", text)
    return joined(
        *(element("code", part) if number % 2 else part for number, part in enumerate(parts))
    )


def paragraphs(text: str) -> Html:
    return joined(
        *(
            element("p", prose(" ".join(part.split())))
            for part in re.split(r"\n\s*\n", text)
            if part.strip()
        )
    )


@cache
def asset(name: str) -> bytes:
    return (_PLACE / name).read_bytes()


@cache
def version_of(name: str) -> str:
    """Changes with the content, so that a browser may keep what it has for as long as it likes."""
    return hashlib.sha256(asset(name)).hexdigest()[:16]


def document(title: str, *content: str, kind: str, links: str = "", script: str = "") -> bytes:
    """A whole page, with the bar that all of them have. `script`: a file beside this one."""
    bar = element(
        "header",
        element(
            "a",
            element("span", class_="mark", aria_hidden="true"),
            "TaskForge",
            class_="brand",
            href="/",
        ),
        element("span", __version__, class_="version"),
        element("nav", links, class_="links", aria_label="Pages") if links else "",
        class_="bar",
    )
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
        element(
            "link",
            rel="icon",
            type="image/svg+xml",
            href=f"/assets/icon.svg?v={version_of('icon.svg')}",
        ),
        element("link", rel="stylesheet", href=f"/assets/style.css?v={version_of('style.css')}"),
        element("script", src=f"/assets/{script}?v={version_of(script)}", defer=True)
        if script
        else "",
    )
    body = element(
        "body",
        element("a", "Skip to content", class_="skip", href="#content"),
        bar,
        *content,
        class_=kind,
    )
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n".encode()
