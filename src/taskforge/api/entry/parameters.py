"""What a request carries besides its body: what its route declares, and nothing else. A parameter
that is not looked at is one that a caller believes in."""

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from functools import cache
from types import NoneType
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints
from urllib.parse import parse_qsl

from litestar.connection import ASGIConnection
from litestar.exceptions import ValidationException
from litestar.handlers import BaseRouteHandler
from litestar.params import HeaderParameter, ParameterKwarg, QueryParameter

from taskforge.api.entry.problems import SAFE
from taskforge.domain.errors import nearest

_IF_MATCH = "If-Match"


class Form(NamedTuple):
    """How a value is written. The framework would take `1e3` for 1000, `on` for true and `0.5` for
    half a second after 1970 began."""

    pattern: re.Pattern[str]
    expected: str


_FORMS = {
    int: Form(re.compile(r"-?[0-9]{1,30}", re.ASCII), "use a whole number"),
    bool: Form(re.compile("true|false"), "use true or false"),
    float: Form(
        re.compile(r"-?[0-9]{1,30}(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,4})?", re.ASCII), "use a number"
    ),
    datetime: Form(
        re.compile(
            r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,30})?"
            r"([Zz]|[+-][0-9]{2}:[0-9]{2})",
            re.ASCII,
        ),
        "use a time with its zone, such as 2026-11-18T06:30:00Z (a + is written %2B)",
    ),
}


class ParameterRule(NamedTuple):
    """What a route says of a parameter: whether it may come more than once, whether `null` is a
    text as any other in it, and how it is written."""

    many: bool
    takes_null: bool
    form: Form | None = None


async def check_parameters(
    connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler
) -> None:
    """The guard before every route of the API, behind the one that knows who asks."""
    if connection.scope["query_string"]:
        check_query(connection.scope["query_string"], declared(handler.fn))
    changes = connection.scope.get("method") not in SAFE
    if (
        changes
        and _IF_MATCH in connection.headers
        and _IF_MATCH not in _declared(handler.fn, HeaderParameter)
    ):
        raise _refused(
            _IF_MATCH,
            "is given, but this route changes nothing that has an ETag",
            "leave it out",
            "header",
        )


def declared(route: Callable[..., Any]) -> Mapping[str, ParameterRule]:
    """The query parameters of a route."""
    return _declared(route, QueryParameter)


def check_query(query: bytes, known: Mapping[str, ParameterRule]) -> dict[str, str]:
    """What a query string gives, if the route declares all of it."""
    given: dict[str, str] = {}
    for name, value in parse_qsl(query.decode(errors="replace"), keep_blank_values=True):
        if name not in known:
            near = nearest(name, known)
            hint = f"did you mean {near!r}? " if near else ""
            raise _refused(
                name[:100],
                "is not a parameter of this route",
                f"{hint}it takes {', '.join(known) or 'none'}",
            )
        if name in given and not known[name].many:
            raise _refused(name, "is given more than once", "give it once")
        if value == "null" and not known[name].takes_null:
            raise _refused(name, "is null", "leave it out, or give it a value")
        form = known[name].form
        if form is not None and form.pattern.fullmatch(value) is None:
            raise _refused(name, f"is {value[:100]!r}", form.expected)
        given[name] = value
    return given


@cache
def _declared(route: Callable[..., Any], kind: type[ParameterKwarg]) -> Mapping[str, ParameterRule]:
    found = {}
    for name, hint in get_type_hints(route, include_extras=True).items():
        for one in getattr(hint, "__metadata__", ()):
            if isinstance(one, kind):
                shape = get_args(hint)[0]
                kinds = list(_kinds(shape))
                choices = (shape, *get_args(shape))
                form = next((_FORMS[kind] for kind in kinds if kind in _FORMS), None)
                found[one.name or name] = ParameterRule(
                    many=list in [get_origin(choice) for choice in choices],
                    takes_null=NoneType not in kinds or str in kinds,
                    form=form,
                )
    return found


def _kinds(shape: Any) -> Iterator[Any]:
    """What a value may be; of a list, what it holds."""
    if get_origin(shape) is Annotated:
        yield from _kinds(get_args(shape)[0])
    elif parts := get_args(shape):
        for part in parts:
            yield from _kinds(part)
    else:
        yield shape


def _refused(name: str, problem: str, expected: str, source: str = "query") -> ValidationException:
    return ValidationException(
        extra=[{"key": name, "message": problem, "expected": expected, "source": source}]
    )
