"""How often a worker's process looks for garbage."""

import gc

NEW_OBJECTS = 10_000
# What interpreters begin with, by version; anything else is an application's own figure.
INITIAL = {(700, 10, 10), (2_000, 10, 10), (2_000, 10, 0)}


def collect_less_often() -> None:
    """Jobs come and go by the thousand, and all that was loaded before them stays: looking for
    garbage after every 700 new objects, through all of it now and then, takes a tenth of a busy
    worker's time. An application that has set its own figure keeps it."""
    figures = gc.get_threshold()
    if figures in INITIAL:
        gc.collect()
        gc.freeze()
        gc.set_threshold(NEW_OBJECTS, *figures[1:])
