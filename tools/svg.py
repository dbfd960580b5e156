"""Just enough SVG for diagrams that a page can show beside its text, on light and dark
backgrounds."""

from collections.abc import Sequence
from html import escape

INK, SOFT, GRID = "#1f2933", "#7b8794", "#e4e7eb"
BLUE, RED, GREEN, AMBER, PURPLE, GREY = (
    "#3a7ca5",
    "#d1495b",
    "#5b8e7d",
    "#edae49",
    "#7768ae",
    "#cbd2d9",
)
COLORS = (BLUE, RED, GREEN, AMBER, PURPLE)


def number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


class Canvas:
    def __init__(self, width: int, height: int, title: str) -> None:
        self._size = (width, height)
        self._title = title
        self._parts: list[str] = []
        self.text(24, 30, title, size=15, weight=600)

    def text(
        self,
        x: float,
        y: float,
        words: str,
        *,
        size: int = 11,
        color: str = INK,
        anchor: str = "start",
        weight: int = 400,
    ) -> None:
        place = (
            f'x="{number(x)}" y="{number(y)}" font-size="{size}" fill="{color}" '
            f'text-anchor="{anchor}" font-weight="{weight}"'
        )
        self._parts.append(f"<text {place}>{escape(words)}</text>")

    def bar(
        self, x: float, y: float, width: float, height: float, color: str, *, opacity: float = 1.0
    ) -> None:
        place = f'x="{number(x)}" y="{number(y)}" width="{number(width)}" height="{number(height)}"'
        self._parts.append(f'<rect {place} rx="1.5" fill="{color}" fill-opacity="{opacity}"/>')

    def line(
        self,
        points: Sequence[tuple[float, float]],
        color: str,
        *,
        width: float = 1.0,
        dash: str = "",
    ) -> None:
        path = " ".join(f"{number(x)},{number(y)}" for x, y in points)
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        self._parts.append(
            f'<polyline points="{path}" fill="none" stroke="{color}" '
            f'stroke-width="{width}"{dashes}/>'
        )

    def dot(
        self, x: float, y: float, color: str, *, radius: float = 3.0, hollow: bool = False
    ) -> None:
        look = f'fill="#fff" stroke="{color}" stroke-width="1.3"' if hollow else f'fill="{color}"'
        self._parts.append(f'<circle cx="{number(x)}" cy="{number(y)}" r="{radius}" {look}/>')

    def whole(self) -> str:
        width, height = self._size
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}" role="img"'
        )
        font = 'font-family="system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif"'
        card = f'<rect width="{width}" height="{height}" rx="8" fill="#fff" stroke="{GRID}"/>'
        return "\n".join(
            [
                f"{head} {font}>",
                f"<title>{escape(self._title)}</title>",
                card,
                *self._parts,
                "</svg>",
                "",
            ]
        )


class Plot:
    """A rectangle of the canvas with scales along its sides."""

    def __init__(
        self, canvas: Canvas, box: tuple[float, float, float, float], x_most: float, y_most: float
    ) -> None:
        """`box`: left, top, right, bottom."""
        self.canvas = canvas
        self.left, self.top, self.right, self.bottom = box
        self._x_most, self._y_most = x_most, y_most

    def x(self, value: float) -> float:
        return self.left + (self.right - self.left) * value / self._x_most

    def y(self, value: float) -> float:
        return self.bottom - (self.bottom - self.top) * min(value, self._y_most) / self._y_most

    def scales(self, x_step: int, y_step: int, x_words: str, y_words: str) -> None:
        for value in range(0, int(self._y_most) + 1, y_step):
            self.canvas.line([(self.left, self.y(value)), (self.right, self.y(value))], GRID)
            self.canvas.text(self.left - 6, self.y(value) + 4, str(value), color=SOFT, anchor="end")
        for value in range(0, int(self._x_most) + 1, x_step):
            self.canvas.text(
                self.x(value), self.bottom + 15, str(value), color=SOFT, anchor="middle"
            )
        self.canvas.text(self.right, self.bottom + 30, x_words, color=SOFT, anchor="end")
        self.canvas.text(self.left - 6, self.top - 10, y_words, color=SOFT)
