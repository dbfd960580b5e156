import sqlite3
import warnings

from taskforge.storage.sqlite.numbered import NumberedConnection


def test_numbered_places_take_their_values_in_any_order_and_nothing_is_warned_of() -> None:
    with warnings.catch_warnings(action="error"):
        connection = sqlite3.connect(":memory:", factory=NumberedConnection)
        try:
            assert connection.execute("select ?2, ?1, ?2", ("a", "b")).fetchall() == [
                ("b", "a", "b")
            ]
            assert connection.execute("select ?, ?", ("a", "b")).fetchall() == [("a", "b")]
            connection.execute("create table pairs (a, b)")
            connection.executemany("insert into pairs values (?2, ?1)", iter([(1, 2), (3, 4)]))
            cursor = connection.cursor()
            assert cursor.execute(
                "select a, b from pairs where a > ?1 order by a", (1,)
            ).fetchall() == [(2, 1), (4, 3)]
            cursor.executemany("insert into pairs values (?, ?)", [(5, 6)])
            assert cursor.execute("select count(*) from pairs").fetchone() == (3,)
        finally:
            connection.close()
