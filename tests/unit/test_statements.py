"""Statements are those of the release that runs, whatever is installed under it meanwhile."""

from pathlib import Path

import pytest

from taskforge.storage.statements import statement


def test_what_is_installed_under_a_running_process_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "some_release" / "sql"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").touch()
    (folder / "insert.sql").write_text("-- what it is for\ninsert into jobs\n")
    (folder / "claim.sql").write_text("-- what it is for\ndelete from ready\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert statement("some_release", "insert") == "insert into jobs"
    (folder / "insert.sql").write_text("insert into other_jobs")
    (folder / "claim.sql").unlink()
    assert statement("some_release", "insert") == "insert into jobs"
    assert statement("some_release", "claim") == "delete from ready"
