"""Histograms of times: counts in buckets that grow by a constant factor, so that a percentile read
from them is off by at most one percent of itself. Two of them are merged by adding their counts.
"""

import math
import struct
import zlib
from collections.abc import Iterable, Mapping

ACCURACY = 0.01
# Rounding takes a part of the promise: buckets are that much narrower.
_HALF_WIDTH = ACCURACY * 0.99
_GROWTH = (1 + _HALF_WIDTH) / (1 - _HALF_WIDTH)
_LOG_GROWTH = math.log(_GROWTH)
_FINEST_MS = 0.001  # shorter times are counted in bucket 0
LAST_BUCKET = 2_000  # some thousand years
MOST_ONE_BY_ONE = 24

Buckets = dict[int, int]
"""How many times fell into each bucket, by its number."""


def bucket_of(milliseconds: float) -> int:
    if milliseconds <= _FINEST_MS:
        return 0
    return min(LAST_BUCKET, math.ceil(math.log(milliseconds / _FINEST_MS) / _LOG_GROWTH))


def middle_of(bucket: int) -> float:
    """The milliseconds that are off by the same part from both ends of a bucket."""
    if bucket == 0:
        return _FINEST_MS
    return float(_FINEST_MS * 2 * _GROWTH**bucket / (_GROWTH + 1))


def percentile(buckets: Mapping[int, int], share: float, least: float, most: float) -> float:
    """By nearest rank: the time below which this share of them lies, within the least and the most
    that was seen. `buckets` are not empty."""
    rank = max(1, math.ceil(share * sum(buckets.values())))
    passed = 0
    for bucket in sorted(buckets):
        passed += buckets[bucket]
        if passed >= rank:
            return min(most, max(least, middle_of(bucket)))
    raise AssertionError("a rank is within its counts")


def merge(into: Buckets, buckets: Mapping[int, int]) -> None:
    for bucket, count in buckets.items():
        into[bucket] = into.get(bucket, 0) + count


Packed = list[int] | bytes


def pack(buckets: Mapping[int, int]) -> Packed:
    """In few bytes: few buckets one by one, many as a row of counts."""
    return _pack_row(buckets) if len(buckets) > MOST_ONE_BY_ONE else _pack_each(buckets)


def unpack(packed: Packed) -> Buckets:
    if isinstance(packed, bytes):
        first, counts = _unpack_row(packed)
        return {first + place: count for place, count in enumerate(counts) if count}
    return _unpack_each(packed)


def unpack_lanes(packed: bytes) -> int:
    """A row of counts as one number of 64 bits for each bucket: such numbers are merged by one
    addition, in a hundredth of the time."""
    first, counts = _unpack_row(packed)
    row = struct.pack(f"<{len(counts)}Q", *counts)
    return int.from_bytes(row, "little") << (64 * first)


def buckets_in(lanes: int) -> Buckets:
    """What `unpack_lanes` and additions made, by bucket."""
    length = -(-lanes.bit_length() // 64)
    counts = struct.unpack(f"<{length}Q", lanes.to_bytes(8 * length, "little"))
    return {bucket: count for bucket, count in enumerate(counts) if count}


def _pack_each(buckets: Mapping[int, int]) -> list[int]:
    """A bucket that counts one is its distance from the bucket before; any other is that distance,
    inverted bit by bit, and the count behind it."""
    packed: list[int] = []
    before = 0
    for bucket in sorted(buckets):
        count = buckets[bucket]
        if count == 1:
            packed.append(bucket - before)
        else:
            packed += (~(bucket - before), count)
        before = bucket
    return packed


def _unpack_each(packed: Iterable[int]) -> Buckets:
    buckets: Buckets = {}
    bucket = 0
    numbers = iter(packed)
    for number in numbers:
        if number >= 0:
            bucket += number
            buckets[bucket] = 1
        else:
            bucket += ~number
            buckets[bucket] = next(numbers)
    return buckets


def _pack_row(buckets: Mapping[int, int]) -> bytes:
    """The first bucket, how many there are, the width of a count, and all counts from there on.
    Frequent counts take few bits: nothing but a Huffman code, which is quick to make."""
    first, last = min(buckets), max(buckets)
    most = max(buckets.values())
    width = "B" if most < 1 << 8 else "H" if most < 1 << 16 else "Q"
    length = last - first + 1
    counts = [buckets.get(bucket, 0) for bucket in range(first, last + 1)]
    deflate = zlib.compressobj(1, zlib.DEFLATED, -15, 8, zlib.Z_HUFFMAN_ONLY)
    head = struct.pack("<HHc", first, length, width.encode())
    return head + deflate.compress(struct.pack(f"<{length}{width}", *counts)) + deflate.flush()


def _unpack_row(packed: bytes) -> tuple[int, tuple[int, ...]]:
    first, length, width = struct.unpack_from("<HHc", packed)
    row = zlib.decompress(packed[5:], -15)
    return first, struct.unpack(f"<{length}{width.decode()}", row)
