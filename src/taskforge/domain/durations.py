"""Durations as people read them."""


def span(length: float | None) -> str:
    """A duration at a glance."""
    if length is None:
        return ""
    if length < 1:
        return f"{length * 1000:.0f} ms"
    for most, unit, size in ((90, "s", 1), (5_400, "m", 60), (129_600, "h", 3_600)):
        if length < most:
            return f"{length / size:.{1 if length < 10 else 0}f} {unit}"
    return f"{length / 86_400:.1f} d"
