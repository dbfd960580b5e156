from taskforge.domain.words import counted


def test_one_is_not_told_as_many() -> None:
    told = [counted(count, "job waits", "jobs wait") for count in (0, 1, 2, 1_000)]
    assert told == ["0 jobs wait", "1 job waits", "2 jobs wait", "1,000 jobs wait"]
