"""The API's own description, OpenAPI 3.1: made from the routes, completed with what the front and
the guard do for all of them."""

from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec

from taskforge.api.entry.caller import PUBLIC
from taskforge.api.entry.problems import DOCUMENTED, MEDIA_TYPE
from taskforge.api.routes import PREFIX
from taskforge.api.schema.bounds import BULK_PARAMETERS, FIELDS, PARAMETERS
from taskforge.api.schema.kinds_of_bounds import Bound
from taskforge.domain.queue import QueueSettings

_METHODS = ("get", "post", "put", "patch", "delete")
_PROBLEM = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
_SECURITY: list[dict[str, list[str]]] = [{"bearer": []}, {"session": []}]
_SETTINGS = {"$ref": "#/components/schemas/QueueSettings"}
_WAIT = {
    "Retry-After": {
        "description": "Seconds to wait before the next try",
        "schema": {"type": "integer"},
    }
}
_HEADERS: dict[int, dict[str, Any]] = {
    401: {"WWW-Authenticate": {"schema": {"type": "string"}}},
    429: _WAIT,
    503: _WAIT,
}
# What the framework writes out although it is the default anyway.
_NOISE = {"deprecated": False, "allowEmptyValue": False, "allowReserved": False, "headers": {}}


@cache
def document() -> dict[str, Any]:
    from taskforge.api.app import make_app  # noqa: PLC0415 - the app serves this, and this describes the app

    app = make_app(None)
    described: dict[str, Any] = app.openapi_schema.to_schema()
    permissions = {
        handler.fn.__name__: str(handler.opt["permission"])
        for route in app.routes
        for handler in _handlers(route)
    }
    for place, path in described["paths"].items():
        for method in _METHODS:
            if method in path:
                _complete(
                    path[method],
                    permissions[path[method]["operationId"]],
                    checked=place.startswith(PREFIX),
                )
    _complete_schemas(described["components"]["schemas"])
    described["components"]["responses"] = {
        f"Problem{status}": {"description": text, "content": _PROBLEM} | _headers(status)
        for status, text in DOCUMENTED.items()
    }
    return _without_noise(described)  # type: ignore[no-any-return]


@cache
def document_bytes() -> bytes:
    return msgspec.json.format(msgspec.json.encode(document()), indent=2)


def _handlers(route: Any) -> list[Any]:
    found = getattr(route, "route_handlers", None)
    return [handler for handler in (found or []) if "permission" in handler.opt]


def _headers(status: int) -> dict[str, Any]:
    return {"headers": _HEADERS[status]} if status in _HEADERS else {}


def _complete(operation: dict[str, Any], permission: str, *, checked: bool) -> None:
    """`checked`: whether a parameter that is not known is refused."""
    operation["x-permission"] = permission
    operation["security"] = [] if permission == PUBLIC else _SECURITY
    body = operation.get("requestBody")
    statuses = {500, 503, 400}
    statuses |= set() if permission == PUBLIC else {401, 403}
    statuses |= {408, 413, 415, 422} if body else set()
    statuses |= {422} if checked else set()
    if any(one["in"] == "path" for one in operation.get("parameters", [])):
        statuses.add(404)
    if operation["operationId"].startswith("create_job"):
        statuses |= {404, 409, 429}
    statuses |= {int(status) for status in operation["responses"] if int(status) >= 400}
    answers = operation["responses"] | {
        str(status): {"$ref": f"#/components/responses/Problem{status}"} for status in statuses
    }
    operation["responses"] = dict(sorted(answers.items()))
    operation["summary"] = (
        operation.get("description", operation["summary"]).split(". ")[0].split("\n")[0].rstrip(".")
    )
    if body and {"type": "null"} in body["content"].get("application/json", {}).get(
        "schema", {}
    ).get("oneOf", []):
        body["required"] = False
    for parameter in operation.get("parameters", []):
        # Left out is how a parameter is null.
        kinds = [one for one in parameter["schema"].get("oneOf", []) if one != {"type": "null"}]
        if len(kinds) == 1:
            parameter["schema"] = kinds[0]
        if parameter["in"] != "path":
            bounds = (
                BULK_PARAMETERS
                if operation["operationId"].startswith("create_jobs")
                else PARAMETERS
            )
            _bind(parameter["schema"], bounds.get(parameter["name"], {}))


def _complete_schemas(schemas: dict[str, Any]) -> None:
    _, made = msgspec.json.schema_components(
        [QueueSettings], ref_template="#/components/schemas/{name}"
    )
    schemas["QueueSettings"] = _described(made.pop("QueueSettings"))
    schemas |= {name: one | {"additionalProperties": False} for name, one in made.items()}
    for name in _strict():
        if name in schemas:
            schemas[name]["additionalProperties"] = False
    for name, fields in FIELDS.items():
        for field, bound in fields.items():
            _bind(schemas[name]["properties"][field], bound)
    schemas["JobEdit"]["properties"]["payload"] = {}
    for name in ("NewQueue", "QueueView"):
        schemas[name]["properties"]["settings"] = _SETTINGS
    schemas["QueueEdit"]["properties"]["settings"] = {"oneOf": [_SETTINGS, {"type": "null"}]}


def _described(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings of a queue as callers may write them: any of them may be null, which is its
    default."""
    properties = {
        name: {
            "oneOf": [
                *(
                    {key: one[key] for key in ("type", "format", "$ref") if key in one}
                    for one in kinds
                ),
                _NULL,
            ]
        }
        for name, kinds in (
            (name, list(_kinds(value))) for name, value in settings["properties"].items()
        )
    }
    return {
        "title": "QueueSettings",
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
    }


_NULL = {"type": "null"}
_OF_LISTS = {"items", "minItems", "maxItems"}


def _kinds(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for one in schema.get("anyOf", [schema]):
        if one.get("type") != "null":
            yield one


def _strict() -> set[str]:
    """The names of structs that refuse fields they do not know."""
    found, left = set(), list(msgspec.Struct.__subclasses__())
    while left:
        one = left.pop()
        left += one.__subclasses__()
        if one.__struct_config__.forbid_unknown_fields and one.__module__.startswith("taskforge."):
            found.add(one.__name__)
    return found


def _bind(schema: dict[str, Any], bound: Bound) -> None:
    """Add what is known of a value to each kind that it may have besides null; to what a list
    holds, unless it is the list that is bound."""
    for kind in schema.get("oneOf", [schema]):
        if kind.get("type") == "array" and not bound.keys() & _OF_LISTS:
            kind["items"].update(bound)
        elif kind.get("type") != "null":
            kind.update(bound)


def _without_noise(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {
            name: _without_noise(one)
            for name, one in value.items()
            if name not in _NOISE or one != _NOISE[name]
        }
        if isinstance(kept.get("default"), msgspec.Struct):
            # the framework writes it now and then, as the order of a set happens to be
            del kept["default"]
        if kept.get("type") == "integer":
            kept |= {name: int(kept[name]) for name in ("minimum", "maximum") if name in kept}
        return kept
    return [_without_noise(one) for one in value] if isinstance(value, list) else value
