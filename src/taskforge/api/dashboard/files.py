"""The built dashboard as the server answers with it. `make dashboard` builds it beside this file,
and wheels carry it; a server without it starts all the same."""

import hashlib
import html
import re
from pathlib import Path
from urllib.parse import urlsplit

BUILT = Path(__file__).parent / "built"
ASSETS = "dashboard"
THEMES = ("light", "dark")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; "
    "connect-src 'self'; worker-src 'self'; manifest-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
_KINDS = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
_NAME = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)+")


def is_built(place: Path = BUILT) -> bool:
    return (place / "index.html").is_file()


def prefix_of(public_url: str) -> str:
    """Where a proxy has put the server, such as `/tools/taskforge`; mostly nothing."""
    return urlsplit(public_url).path.rstrip("/")


def page(
    prefix: str, theme: str, *, single_sign_on: bool, place: Path = BUILT
) -> tuple[bytes, str]:
    """The one page of the dashboard and its ETag. Its assets are named from the root: it answers at
    many addresses."""
    text = (place / "index.html").read_text()
    written = html.escape(prefix)
    text = re.sub(r'(src|href)="\.?/', rf'\1="{written}/', text)
    text = _filled(text, "prefix", written)
    text = _filled(text, "single-sign-on", "yes" if single_sign_on else "no")
    if theme in THEMES:
        text = text.replace("<html ", f'<html data-theme="{theme}" ', 1)
    body = text.encode()
    return body, f'"{hashlib.sha256(body).hexdigest()[:32]}"'


def _filled(text: str, name: str, value: str) -> str:
    return text.replace(
        f'name="taskforge-{name}" content=""', f'name="taskforge-{name}" content="{value}"'
    )


def asset(name: str, place: Path = BUILT) -> tuple[bytes, str] | None:
    """An asset and its media type. Its name has its hash, so a browser may keep it for good."""
    path = place / ASSETS / name
    if _NAME.fullmatch(name) is None or path.suffix not in _KINDS or not path.is_file():
        return None
    return path.read_bytes(), _KINDS[path.suffix]
