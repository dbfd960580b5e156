import runpy
from pathlib import Path

import pytest

MAIN = runpy.run_path(str(Path(__file__).parents[2] / "tools" / "sizes.py"))["main"]


def lay_out(root: Path, methods: int, lines: int) -> Path:
    body = "".join(
        f"    async def method_{number}(self) -> None: ...\n" for number in range(methods)
    )
    (root / "ports").mkdir()
    (root / "ports" / "jobs.py").write_text(
        f"class Few(Protocol):\n    def one(self): ...\n"
        f"class Jobs(Few, Protocol):\n    kind: str\n{body}\n"
        f"class Value:\n{body.replace('method', 'other')}"
    )
    (root / "long.py").write_text("\n" * lines)
    return root


def test_the_limits_themselves_pass_and_a_long_file_is_noted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert MAIN(lay_out(tmp_path, methods=8, lines=349)) == 0
    output = capsys.readouterr().out
    assert "Jobs has 8 methods" in output
    assert "note:" in output


@pytest.mark.parametrize(("methods", "lines"), [(9, 10), (5, 350)])
def test_one_more_fails(tmp_path: Path, methods: int, lines: int) -> None:
    assert MAIN(lay_out(tmp_path, methods, lines)) == 1
