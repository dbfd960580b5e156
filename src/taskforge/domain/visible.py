"""Characters that steer whatever shows them: control characters, and marks that turn the direction
of writing. Names refuse them; what a terminal or a log shows has them made visible."""

import re

_CONTROL = r"\x00-\x08\x0b-\x1f\x7f-\x9f"
_BIDIRECTIONAL = r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_STEERING = re.compile(rf"[{_CONTROL}{_BIDIRECTIONAL}]")
_IN_A_NAME = re.compile(rf"[\t\n{_CONTROL}{_BIDIRECTIONAL}]")
_IN_JSON = re.compile(rf"[\x7f-\x9f{_BIDIRECTIONAL}]")
_FIRST_PICTURE = 0x2400  # U+241B, SYMBOL FOR ESCAPE, stands for U+001B


def has_steering(name: str) -> bool:
    """Whether a name holds such a character, or a line break or tab."""
    return _IN_A_NAME.search(name) is not None


def make_visible(text: str) -> str:
    """The text with every such character as a picture or an escape; lines and tabs stay."""
    return _STEERING.sub(_draw, text)


def make_json_visible(document: str) -> str:
    """JSON escapes only what lies below a space; here the others are escaped too, so that the
    document means the same and steers nothing."""
    return _IN_JSON.sub(_escape, document)


def _draw(found: re.Match[str]) -> str:
    character = found[0]
    return chr(_FIRST_PICTURE + ord(character)) if character < " " else _escape(found)


def _escape(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"
