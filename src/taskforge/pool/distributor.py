"""Chooses the worker whose queue a job joins. The choices are those of `domain.balancer`; this
keeps what they remember."""

from collections.abc import Sequence
from typing import Literal, assert_never

from taskforge.domain.balancer import (
    Contender,
    Credits,
    Experience,
    adaptive,
    least_load,
    observe,
    round_robin,
    sticky,
    weighted,
)

Distribution = Literal["round_robin", "weighted", "least_load", "adaptive", "sticky"]


class Distributor:
    def __init__(
        self, distribution: Distribution, size: int, room: int, weights: Sequence[int] | None
    ) -> None:
        """`room`: how many jobs one worker may hold, the running one included."""
        if weights is not None and (len(weights) != size or any(weight < 1 for weight in weights)):
            raise ValueError(
                f"weights are {list(weights)}; use {size} whole numbers of at least 1, one for "
                f"each worker"
            )
        width = len(str(size - 1))
        self.names = [f"worker-{number:0{width}}" for number in range(size)]
        self._distribution = distribution
        self._numbers = {name: number for number, name in enumerate(self.names)}
        each = weights or [1] * size
        self._candidates = [
            Contender(name, 0, room, weight) for name, weight in zip(self.names, each, strict=True)
        ]
        self._last: str | None = None
        self._credit: Credits = {}
        self._experience = Experience()

    def choose(self, key: str | None) -> int | None:
        """The number of a worker with room; None when there is none."""
        match self._distribution:
            case "round_robin":
                name = self._last = round_robin(self._last, self._candidates) or self._last
            case "least_load":
                name = self._last = least_load(self._last, self._candidates) or self._last
            case "weighted":
                self._credit, name = weighted(self._credit, self._candidates)
            case "adaptive":
                self._experience, name = adaptive(self._experience, self._candidates)
            case "sticky":
                # Without a key nothing is to stick: those jobs go where there is most room.
                name = (
                    sticky(key, self._candidates)
                    if key is not None
                    else least_load(None, self._candidates)
                )
            case _:
                assert_never(self._distribution)
        number = None if name is None else self._numbers[name]
        return number if number is not None and self._candidates[number].is_free else None

    def change(self, number: int, by: int) -> None:
        """The worker has so many jobs more, or fewer."""
        old = self._candidates[number]
        self._candidates[number] = Contender(old.name, old.active + by, old.most, old.weight)

    def observe(self, number: int, seconds: float, *, failed: bool) -> None:
        if self._distribution == "adaptive":
            self._experience = observe(self._experience, self.names[number], seconds, failed=failed)
