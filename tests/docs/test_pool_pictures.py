"""The pictures of the pool's guide are what their script draws, and the guide shows all of them."""

import re
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tools.draw_pool_pictures import FOLDER, PICTURES, main

GUIDE = FOLDER.parent / "pool.md"


def shape(file: Path) -> tuple[dict[str, str], Counter[str], list[str]]:
    """What makes two drawings of the same run alike: size, how many of each element, and what is
    written in words."""
    root = ET.fromstring(file.read_text())
    words = [
        text
        for each in root.iter()
        if (text := (each.text or "").strip()) and not re.search(r"\d", text)
    ]
    return dict(root.attrib), Counter(each.tag for each in root.iter()), words


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pictures")
    assert main(folder) == 0
    return folder


def test_no_picture_is_missing_or_left_over() -> None:
    committed = {file.stem for file in FOLDER.glob("*.svg")}
    assert committed == set(PICTURES)
    assert set(re.findall(r"\(pictures/([\w-]+)\.svg\)", GUIDE.read_text())) == committed


@pytest.mark.parametrize("name", PICTURES)
def test_the_script_still_draws_the_picture(name: str, drawn: Path) -> None:
    size, elements, words = shape(FOLDER / f"{name}.svg")
    new_size, new_elements, new_words = shape(drawn / f"{name}.svg")
    assert (new_size, new_words) == (size, words)
    assert set(new_elements) == set(elements)
    # A bar more or less is a choice of the scheduler's, not another picture.
    assert all(abs(new_elements[tag] - count) <= 3 + count // 10 for tag, count in elements.items())
    assert (FOLDER / f"{name}.svg").stat().st_size < 60 * 1024
