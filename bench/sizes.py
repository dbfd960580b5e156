"""How much each measurement does: the full form, the quick one for CI, and either of them
scaled."""

import msgspec


class Sizes(msgspec.Struct, frozen=True, kw_only=True):
    rounds: int  # pairs of (floor, engine); the median pair counts
    bulk: int
    singles: int
    drain: int  # fewer than 150,000 jobs do not churn the tables, and a bad plan then goes unseen
    mixed: int
    mixed_head: int
    history: int
    history_drain: int
    unhandled: int
    unhandled_drain: int
    before_seconds: float
    held_seconds: float
    release_seconds: float  # how long the rate may take to come back
    slice_seconds: float
    control_seconds: float
    pruned: int
    prune_seconds: float
    layouts: int

    def scaled(self, scale: float) -> "Sizes":
        """Everything but the number of rounds times `scale`, batches kept whole."""
        values = msgspec.structs.asdict(self)
        for name in set(values) - {"rounds"}:
            scaled = values[name] * scale
            values[name] = (
                scaled if name.endswith("_seconds") else max(1_000, round(scaled / 1_000) * 1_000)
            )
        return Sizes(**values)


FULL = Sizes(
    rounds=3,
    bulk=100_000,
    singles=30_000,
    drain=150_000,
    mixed=150_000,
    mixed_head=50_000,
    history=1_000_000,
    history_drain=50_000,
    unhandled=200_000,
    unhandled_drain=30_000,
    before_seconds=20,
    held_seconds=180,
    release_seconds=60,
    slice_seconds=10,
    control_seconds=2,
    pruned=1_000_000,
    prune_seconds=180,
    layouts=150_000,
)

QUICK = Sizes(
    rounds=2,
    bulk=15_000,
    singles=4_000,
    drain=20_000,
    mixed=20_000,
    mixed_head=10_000,
    history=100_000,
    history_drain=6_000,
    unhandled=20_000,
    unhandled_drain=4_000,
    before_seconds=4,
    held_seconds=30,
    release_seconds=8,
    slice_seconds=6,
    control_seconds=0.6,
    pruned=100_000,
    prune_seconds=15,
    layouts=20_000,
)
