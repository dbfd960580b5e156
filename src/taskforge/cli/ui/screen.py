"""Where every command writes: the one place through which text reaches a terminal. Text of users
comes out with its control characters made visible, so that no job steers the terminal of whoever
looks at it."""

import os
import sys
from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.segment import Segment
from rich.text import Text

from taskforge.domain.visible import make_json_visible, make_visible

# rich takes 80 for what is no terminal and would cut what a script or a file could hold
WIDTH_OF_A_PIPE = 200


class Screen(Console):
    """rich's own control codes are segments of their own kind, and styles are added behind this:
    what is text here came from somebody."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield (
                segment
                if segment.control
                else Segment(make_visible(segment.text), segment.style, None)
            )


def console() -> Screen:
    piped = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    return Screen(highlight=False, markup=False, width=WIDTH_OF_A_PIPE if piped else None)


def error_console(*, soft_wrap: bool = False) -> Screen:
    return Screen(stderr=True, highlight=False, markup=False, soft_wrap=soft_wrap)


def styled(template: str, **values: object) -> Text:
    """Text with rich's markup in the template; what is in the values is nothing but text."""
    shown = {name: escape(str(value)) for name, value in values.items()}
    return Text.from_markup(template.format(**shown))


def print_json(document: str) -> None:
    print(make_json_visible(document), flush=True)
