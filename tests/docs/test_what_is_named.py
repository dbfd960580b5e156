"""What the documents name is there: links, files, tests, words, folders on the map."""

from pathlib import Path

import pytest

from tools import check_documents
from tools.check_documents import ROOT


@pytest.mark.parametrize("page", [str(page.relative_to(ROOT)) for page in check_documents.pages()])
def test_every_relative_link_resolves(page: str) -> None:
    assert check_documents.broken_links(ROOT / page) == []


@pytest.mark.parametrize(
    "page", [str(page.relative_to(ROOT)) for page in check_documents.contributors_pages()]
)
def test_every_file_and_test_that_a_page_names_is_there(page: str) -> None:
    assert check_documents.missing_files(ROOT / page) == []
    assert check_documents.missing_tests(ROOT / page) == []


def test_every_word_of_the_glossary_lives_where_it_says() -> None:
    entries = check_documents.glossary()
    assert len(entries) > 60
    assert len({word for word, _ in entries}) == len(entries)
    faults = {word: check_documents.fault_of(word, text) for word, text in entries}
    assert {word: fault for word, fault in faults.items() if fault is not None} == {}


def test_the_map_shows_every_package_module_of_an_engine_and_folder_of_tests() -> None:
    assert check_documents.unmapped() == []


def test_a_link_to_nowhere_is_found(tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("# Its only `heading`, here\n")
    page = tmp_path / "page.md"
    page.write_text(
        "[a](other.md) [b](gone.md) [c](other.md#its-only-heading-here) [d](other.md#gone)\n"
        "[e](https://example.com/gone)\n```text\n[f](gone.md)\n```\n"
    )
    assert check_documents.broken_links(page) == ["gone.md", "other.md#gone"]


def test_a_file_or_a_test_that_has_gone_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "`domain/job.py` `domain/gone.py` `gone.sql` `job.py` `domain/changes.plan` "
        "`domain/changes.gone` `src/taskforge/gone/` `tests/unit/test_ids.py test_gone.py` "
        "`test_a_link_to_nowhere_is_found` `test_that_nobody_wrote`\n"
    )
    assert check_documents.missing_files(page) == [
        "domain/gone.py",
        "gone.sql",
        "domain/changes.gone",
        "src/taskforge/gone/",
        "tests/unit/test_gone.py",
    ]
    assert check_documents.missing_tests(page) == ["test_that_nobody_wrote"]


def test_a_word_that_its_file_does_not_use_is_found() -> None:
    assert check_documents.fault_of("fence", "the job's claim. `domain/ids.py`") is None
    assert check_documents.fault_of("fence", "the job's claim.") == "names no file"
    assert check_documents.fault_of("fence", "`domain/gone.py`") is not None
    assert check_documents.fault_of("hippopotamus", "`domain/ids.py`") is not None
