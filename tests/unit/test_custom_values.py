from taskforge.domain.custom_value import MOST_NAMES, OTHERS, CustomCounter, CustomValue
from taskforge.domain.rollup import (
    Cell,
    Delta,
    Scope,
    decode_cell,
    decode_seen,
    sum_deltas,
    summed_up,
)


def value(last: float, at: float) -> CustomValue:
    return CustomValue(1, last, last, last, last, at)


def test_a_counter_sums_up_and_takes_back_what_was_not_heard() -> None:
    counter = CustomCounter()
    for number in (3.0, 1.0, 2.0):
        counter.add("send", "rows", number, 100 + number)
    sums = counter.take(105)
    assert counter.take(105) == []
    counter.put_back(sums, 110)
    counter.add("send", "rows", 10.0, 109)
    [rows] = counter.take(110)
    assert (rows.count, rows.total, rows.least, rows.most) == (4, 16.0, 1.0, 10.0)
    assert (rows.last, rows.seconds_ago) == (10.0, 1)


def test_names_beyond_the_most_are_counted_as_one() -> None:
    counter = CustomCounter()
    for number in range(MOST_NAMES + 10):
        counter.add("send", f"name {number}", 1.0, 0)
    counter.add("send", "name 0", 1.0, 0)
    sums = {one.name: one.count for one in counter.take(0)}
    assert len(sums) == MOST_NAMES + 1
    assert (sums[OTHERS], sums["name 0"]) == (10, 2)


def test_cells_keep_the_values_of_their_job_type_alone() -> None:
    of_type, of_project = Scope(1, job_type="send"), Scope(1)
    deltas = [
        Delta(of_type, 7, None, 0, customs={"rows": value(2.0, 50)}),
        Delta(of_type, 7, None, 0, customs={"rows": value(5.0, 40)}),
    ]
    cells = sum_deltas(deltas)
    assert cells[of_project, 7].customs == {}
    kept = decode_cell(cells[of_type, 7].encode())
    assert kept.customs == {"rows": CustomValue(2, 7.0, 2.0, 5.0, 2.0, 50)}
    assert summed_up([kept, Cell(), kept]).customs["rows"].total == 14.0
    assert decode_cell(Cell().encode()).customs == {}


def test_what_a_delta_saw_and_what_it_counted_are_told_apart() -> None:
    assert decode_seen(None) == ({}, {})
    assert decode_seen('{"0":3.5,"1":2}') == ({0: 3.5, 1: 2.0}, {})
    assert decode_seen('{"0":[1,2,2,2,2,9]}') == ({}, {"0": CustomValue(1, 2, 2, 2, 2, 9)})
