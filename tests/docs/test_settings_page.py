"""The page of settings says all that stands above each field."""

from pathlib import Path

from taskforge.settings import Settings
from tools.settings_reference import table


def test_a_comment_of_several_lines_is_read_whole(tmp_path: Path) -> None:
    source = tmp_path / "settings.py"
    source.write_text(
        "".join(
            f"    # The first line of {name},\n    # and its second\n    {name}: str = ''\n"
            for name in Settings.__struct_fields__
        )
    )
    text = table(source, Settings(), environment=True)
    for name in Settings.__struct_fields__:
        assert f"| The first line of {name}, and its second |" in text
