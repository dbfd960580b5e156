import runpy
from pathlib import Path

import pytest

MAIN = runpy.run_path(str(Path(__file__).parents[2] / "tools" / "engine_size.py"))["main"]


def lay_out(root: Path, methods: int, lines: int) -> Path:
    body = "".join(f"    async def method_{number}(self) -> None: ...\n" for number in range(methods))
    (root / "storage").mkdir()
    (root / "storage" / "engine.py").write_text(f"class Engine(Protocol):\n    def _private(self): ...\n    kind: str\n{body}")
    (root / "long.py").write_text("\n" * lines)
    return root


def test_the_limits_themselves_pass_and_a_long_file_is_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert MAIN(lay_out(tmp_path, methods=33, lines=500)) == 0
    output = capsys.readouterr().out
    assert "33 public methods" in output
    assert "note:" in output


@pytest.mark.parametrize(("methods", "lines"), [(34, 10), (5, 501)])
def test_one_more_fails(tmp_path: Path, methods: int, lines: int) -> None:
    assert MAIN(lay_out(tmp_path, methods, lines)) == 1
