"""Characters that steer a terminal: refused in names, shown as what they are."""

import json

import pytest

from taskforge.domain import rules
from taskforge.domain.errors import Invalid
from taskforge.domain.visible import make_json_visible, make_visible

STEERING = ["\x00", "\x07", "\x0b", "\r", "\x1b", "\x7f", "\x80", "\x9b", "\x9d", "\x9f"]
TURNING = ["\u061c", "\u200e", "\u200f", "\u202a", "\u202e", "\u2066", "\u2069"]


@pytest.mark.parametrize("character", [*STEERING, *TURNING, "\n", "\t"])
def test_a_name_refuses_it(character: str) -> None:
    with pytest.raises(Invalid, match="contains a control character"):
        rules.text("name", f"a{character}b", most=9)


@pytest.mark.parametrize("character", [*STEERING, *TURNING])
def test_shown_text_has_something_visible_in_its_place(character: str) -> None:
    shown = make_visible(f"a{character}b")
    assert character not in shown
    assert len(shown) > 2
    assert shown.isprintable()


def test_lines_tabs_and_other_languages_stay_as_they_are() -> None:
    text = "zwei\tSpalten\n日本語 עברית \N{WOMAN}\N{ZERO WIDTH JOINER}\N{PERSONAL COMPUTER}"
    assert make_visible(text) == text
    assert rules.text("name", "日本語 עברית", most=20) == "日本語 עברית"


@pytest.mark.parametrize("character", [*STEERING, *TURNING])
def test_json_means_the_same_and_holds_none_of_it(character: str) -> None:
    document = json.dumps({"name": f"a{character}b"}, ensure_ascii=False)
    shown = make_json_visible(document)
    assert character not in shown
    assert json.loads(shown) == {"name": f"a{character}b"}
