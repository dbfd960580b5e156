"""Counts as people read them."""


def counted(count: int, one: str, many: str) -> str:
    """`counted(1, "job waits", "jobs wait")`."""
    return f"{count:,} {one if count == 1 else many}"
