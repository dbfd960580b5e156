"""Pure parts: how times are read and how the view is drawn."""

import io
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import msgspec
import pytest
from rich.console import Console

from taskforge.cli.moments import ago, instant, seconds
from taskforge.cli.ui.snapshot import Snapshot
from taskforge.cli.ui.terminal import table
from taskforge.cli.ui.view import Heading, ViewLine, draw
from taskforge.domain.durations import span
from taskforge.domain.errors import Invalid
from taskforge.domain.ids import IdMint
from taskforge.domain.job import ErrorInfo, JobStatus, StoredJob
from taskforge.domain.query import QueueStats

IDENTIFIER = "01a1e196-9e4f-72df-b3cd-0a65f6000000"
NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("90", 90), ("1.5s", 1.5), ("15m", 900), ("2 h", 7200), ("3D", 259_200), ("5ms", 0.005)],
)
def test_durations(text: str, wanted: float) -> None:
    assert seconds("--delay", text) == pytest.approx(wanted)


@pytest.mark.parametrize("text", ["", "-1", "1y", "m", "1h30m"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(Invalid, match="--delay"):
        seconds("--delay", text)


def test_instants_have_a_zone() -> None:
    assert instant("--at", "2026-05-01T09:30+02:00") == datetime(2026, 5, 1, 7, 30, tzinfo=UTC)
    assert instant("--at", "2026-05-01T09:30").utcoffset() is not None
    assert abs(ago("--since", "1h") - (datetime.now(UTC) - timedelta(hours=1))) < timedelta(
        seconds=5
    )


def test_spans_read_well() -> None:
    assert [span(value) for value in (None, 0.02, 1.25, 42, 90, 7_200, 200_000)] == [
        "",
        "20 ms",
        "1.2 s",
        "42 s",
        "2 m",
        "2 h",
        "2.3 d",
    ]


def _lines(width: int, note: str, job_type: str = "send_invoice_email") -> list[str]:
    rows = table(
        "id",
        "type",
        "queue",
        "try",
        "note",
        flexible=("note",),
        spare=("try", "queue"),
        whole=("id",),
    )
    rows.add_row(IDENTIFIER, job_type, "emails", "1/3", note)
    rows.add_row(IDENTIFIER, "short", "default", "0/3", "")
    file = io.StringIO()
    Console(file=file, width=width, color_system=None).print(rows)
    return file.getvalue().splitlines()


@pytest.mark.parametrize("width", [50, 80, 100, 132, 200])
@pytest.mark.parametrize("job_type", ["send_invoice_email", "x" * 200])
def test_ids_are_whole_whatever_else_a_table_holds(width: int, job_type: str) -> None:
    lines = _lines(width, "words " * 60, job_type)
    assert max(len(line) for line in lines) <= width
    assert [line.split()[0] for line in lines[2:4]] == [IDENTIFIER] * 2


def test_the_note_gives_way_and_then_what_is_spare() -> None:
    wide, narrow = _lines(100, "words " * 60), _lines(70, "words " * 60)
    assert wide[0].split() == ["id", "type", "queue", "try", "note"]
    assert wide[2].split()[1:5] == ["send_invoice_email", "emails", "1/3", "words"]
    assert wide[2].rstrip().endswith("…")
    assert len(wide) == 4
    assert narrow[0].split() == ["id", "type", "queue"]
    assert narrow[4].strip() == "no room for: note, try"
    assert _lines(100, "short")[2].rstrip().endswith("short")


def _job(status: JobStatus, **changes: object) -> StoredJob:
    job = StoredJob(
        id=IdMint()(),
        project=1,
        queue="a queue with a name of its own",
        queue_id=uuid4(),
        job_type="a_job_type_with_a_rather_long_name",
        status=status,
        priority=0,
        attempt_count=1,
        max_attempts=3,
        epoch=1,
        crash_count=0,
        payload=None,
        created_at=NOW - timedelta(seconds=5),
        updated_at=NOW,
        started_at=NOW - timedelta(seconds=4),
    )
    return msgspec.structs.replace(job, **changes)


def _drawn(snapshot: Snapshot, heading: Heading, columns: int, lines: int) -> list[str]:
    screen = Console(
        file=io.StringIO(), width=columns, height=lines, force_terminal=True, color_system=None
    )
    rows = screen.render_lines(draw(snapshot, [], heading, columns, lines), pad=False)
    return ["".join(segment.text for segment in row) for row in rows]


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_the_view_covers_neither_the_address_nor_how_to_get_in(columns: int) -> None:
    """They were printed, and at once covered by the view."""
    link = "http://127.0.0.1:8080/login?token=tfl_NsVrDhk6WpbnxDfIw2JdlgTkOcFL_St5AAwN13BXqSk"
    place = f"http://127.0.0.1:8080 · sqlite:///{'x' * 100}.db"
    heading = Heading("TaskForge demo", place, 5, None, (("log in", link), ("API key", "tfk_x")))
    text = _drawn(Snapshot(at=NOW, queues=[], rates={}, workers=[], jobs=[]), heading, columns, 30)
    assert len(text) == 30
    if columns >= 80:
        assert "http://127.0.0.1:8080" in text[0]
    assert link in "".join(row.rstrip() for row in text[1:3])
    assert any(row.rstrip().endswith("tfk_x") for row in text[2:4])


def test_the_view_keeps_failures_and_tells_dead_letters_and_the_oldest_age() -> None:
    dead = QueueStats(
        queue="lost", queue_id=uuid4(), is_active=True, pending=2, oldest_pending_seconds=90.0
    )
    failed = _job(JobStatus.FAILED, job_type="broke", error=ErrorInfo("ValueError", "boom"))
    newer = [_job(JobStatus.SUCCEEDED, completed_at=NOW) for _ in range(60)]
    snapshot = Snapshot(
        at=NOW,
        queues=[dead],
        rates={},
        workers=[],
        jobs=[failed, *newer],
        dead_letter_queues=frozenset({dead.queue_id}),
    )
    text = _drawn(snapshot, Heading("TaskForge", "", 5), 130, 30)
    [row] = [row for row in text if "broke" in row]
    assert str(failed.id) in row
    assert "ValueError: boom" in row
    [row] = [row for row in text if "lost" in row]
    assert "dead letters" in row
    assert "2 m" in row


@pytest.mark.parametrize("lines", [17, 18, 19])
def test_where_few_jobs_have_room_the_newest_is_seen_beside_old_failures(lines: int) -> None:
    """Where less than three had, all failures went first."""
    mint = IdMint()
    failed = [
        _job(JobStatus.FAILED, id=mint(), job_type="broke", completed_at=NOW) for _ in range(5)
    ]
    newest = _job(JobStatus.SUCCEEDED, id=mint(), job_type="newest", completed_at=NOW)
    snapshot = Snapshot(at=NOW, queues=[], rates={}, workers=[], jobs=[*failed, newest])
    text = _drawn(snapshot, Heading("TaskForge", "", 5), 130, lines)
    assert any("newest" in row for row in text)


@pytest.mark.parametrize(("columns", "lines"), [(80, 24), (100, 30), (160, 50), (220, 60)])
def test_every_row_is_one_line_of_the_screen(columns: int, lines: int) -> None:
    long = "[red]" + "words and more words " * 20
    jobs = [
        _job(JobStatus.PROCESSING, progress=0.4, progress_message=long),
        *[
            _job(JobStatus.FAILED, error=ErrorInfo("ValueError", long + "\nsecond line"))
            for _ in range(60)
        ],
    ]
    queues = [
        QueueStats(
            queue=f"queue {number} " + "x" * 60,
            queue_id=uuid4(),
            is_active=number % 2 == 0,
            succeeded=10**number,
        )
        for number in range(12)
    ]
    snapshot = Snapshot(at=NOW, queues=queues, rates={}, workers=[], jobs=jobs)
    screen = Console(
        file=io.StringIO(), width=columns, height=lines, force_terminal=True, color_system=None
    )
    logged = [ViewLine("12:00:00", "info", "a.logger.with.a.long.name", long) for _ in range(40)]
    rows = screen.render_lines(
        draw(snapshot, logged, Heading("TaskForge demo", long, 75.0), columns, lines), pad=False
    )
    text = ["".join(segment.text for segment in row) for row in rows]
    assert len(text) == lines
    assert all(len(row) <= columns for row in text)
    assert sum("ValueError" in row for row in text) >= 2
    assert sum("info" in row for row in text) >= 2
    assert any("40%" in row for row in text)
    assert any("of 12" in row for row in text) == (lines < 48)
    assert "second line" not in "".join(text)
