from datetime import UTC, datetime, timedelta
from itertools import pairwise
from uuid import RFC_4122, UUID, uuid4

from hypothesis import given
from hypothesis import strategies as st

from taskforge.domain import ids

MILLISECONDS = st.integers(min_value=0, max_value=(1 << 48) - 1)
EPOCHS = st.integers(min_value=0, max_value=ids.MAX_EPOCH)


@given(st.lists(MILLISECONDS, min_size=1, max_size=200))
def test_ids_rise_strictly_whatever_the_clock_does(readings: list[int]) -> None:
    clock = iter(readings)
    mint = ids.IdMint(lambda: next(clock))
    minted = [mint() for _ in readings]
    assert all(earlier < later for earlier, later in pairwise(minted))
    assert all(ids.is_job_id(identifier) for identifier in minted)


@given(
    st.lists(
        st.tuples(MILLISECONDS, st.integers(min_value=1, max_value=50)), min_size=1, max_size=50
    ),
    st.integers(0, 60),
)
def test_ids_minted_by_the_batch_rise_strictly_too(
    batches: list[tuple[int, int]], left: int
) -> None:
    clock = iter([now for now, _ in batches])
    mint = ids.IdMint(lambda: next(clock))
    minted: list[int] = []
    for _, count in batches:
        # close to where the count is carried over the variant's bits
        mint._bits |= (1 << 38) - 1 - left
        minted += mint.many(count)
    assert all(earlier < later for earlier, later in pairwise(minted))
    assert all(
        ids.is_job_id(UUID(int=number)) and UUID(int=number).variant == RFC_4122
        for number in minted
    )


@given(MILLISECONDS)
def test_a_millisecond_yields_a_hundred_thousand_ids_without_running_into_the_next(
    now: int,
) -> None:
    mint = ids.IdMint(lambda: now)
    mint()
    mint._bits += 100_000
    last = mint()
    assert last.int >> 80 == now
    assert ids.is_job_id(last)
    assert last.variant == UUID(int=last.int).variant == "specified in RFC 4122"


@given(MILLISECONDS, EPOCHS)
def test_a_fence_is_job_and_epoch_and_nothing_is_lost(now: int, epoch: int) -> None:
    job = ids.IdMint(lambda: now)()
    fence = ids.fence_of(job, epoch)
    assert ids.job_of(fence) == job
    assert ids.epoch_of(fence) == epoch
    assert job <= fence <= ids.last_fence_of(job)
    assert ids.is_job_id(fence) == (epoch == 0)
    assert ids.fence_of(job, 0) == job


@given(MILLISECONDS, EPOCHS, EPOCHS)
def test_fences_of_neighbouring_jobs_never_meet(now: int, one: int, another: int) -> None:
    mint = ids.IdMint(lambda: now)
    first, second = mint(), mint()
    assert ids.fence_of(first, one) < ids.fence_of(second, another)
    assert ids.last_fence_of(first) < second


@given(
    st.datetimes(
        min_value=datetime(1970, 1, 1),  # noqa: DTZ001
        max_value=datetime(9000, 1, 1),  # noqa: DTZ001
        timezones=st.just(UTC),
    )
)
def test_an_id_carries_its_millisecond_and_time_ranges_become_id_ranges(moment: datetime) -> None:
    mint = ids.IdMint(lambda: int(moment.timestamp() * 1000))
    identifier = mint()
    assert abs(ids.created_at(identifier) - moment) <= timedelta(milliseconds=2)
    assert ids.first_id_at(moment) <= identifier
    assert identifier < ids.first_id_at(moment + timedelta(milliseconds=2))


def test_moments_before_1970_begin_at_the_first_id() -> None:
    assert ids.first_id_at(datetime(1969, 1, 1, tzinfo=UTC)) == UUID(int=0)


@given(st.integers(min_value=0, max_value=(1 << 128) - 1))
def test_the_quick_constructors_make_ordinary_uuids(value: int) -> None:
    usual = UUID(int=value)
    for quick in (ids.uuid_from_int(value), ids.uuid_from_bytes(usual.bytes)):
        assert quick == usual
        assert hash(quick) == hash(usual)
        assert str(quick) == str(usual)
        assert quick.is_safe is usual.is_safe


def test_other_uuids_are_no_job_ids() -> None:
    assert not ids.is_job_id(uuid4())
    assert not ids.is_job_id(UUID(int=0))
