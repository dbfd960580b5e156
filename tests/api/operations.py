"""Every operation of the API as its own document declares it, and requests made from its schemas.

Tests that go through all of them take them from here, so that a new operation is covered, or fails
the build, by itself.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from taskforge.api.schema.document import document

# What a field must hold to be let through, where its type alone does not say it.
USUAL: dict[str, Any] = {
    "action": "cancel",
    "email": "new@example.com",
    "expires_at": "2099-01-01T00:00:00Z",
    "job_type": "usual",
    "kind": "key",
    "level": "info",
    "name": "usual",
    "new_password": "a phrase that nobody else has",
    "owner_email": "owner@example.com",
    "password": "a phrase that nobody else has",
    "permissions": ["job:read"],
    "priority": 1,
    "queue": "usual",
    "role": "viewer",
    "where": {"everything": True},
}


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    method: str
    path: str
    permission: str
    parameters: list[dict[str, Any]]
    body: dict[str, Any] | None

    def named(self, place: str) -> list[str]:
        """Its parameters in the path, the query or the header."""
        return [one["name"] for one in self.parameters if one["in"] == place]

    def at(self, values: Mapping[str, Any]) -> str:
        """Its path with these values in it."""
        return self.path.format_map(values)

    @property
    def is_mutating(self) -> bool:
        return self.method != "GET"

    @property
    def is_stream(self) -> bool:
        return self.name == "stream_events"


def operations() -> list[Operation]:
    found = [
        Operation(
            name=described["operationId"],
            method=method.upper(),
            path=path,
            permission=described["x-permission"],
            parameters=described.get("parameters", []),
            body=described.get("requestBody", {})
            .get("content", {})
            .get("application/json", {})
            .get("schema"),
        )
        for path, methods in document()["paths"].items()
        for method, described in methods.items()
        if method in ("get", "post", "put", "patch", "delete")
    ]
    return sorted(found, key=lambda one: (one.path, one.method))


def usual_body(schema: Mapping[str, Any] | None, own: Mapping[str, Any] | None = None) -> Any:
    """The least that is let through, with what is the caller's own where such is needed."""
    if schema is None:
        return None
    schema = resolved(schema)
    if schema.get("type") == "array":
        return [usual_body(schema["items"], own)]
    needed = schema.get("required") or [
        name for name in ("priority",) if name in schema.get("properties", {})
    ]
    return {name: _usual(name, schema["properties"][name], own or {}) for name in needed}


def foreign_bodies(
    schema: Mapping[str, Any] | None,
    foreign: Mapping[str, list[Any]],
    own: Mapping[str, Any] | None = None,
) -> Iterator[Any]:
    """The usual body with each field in turn, at any depth, that could hold a value of someone
    else's."""
    if schema is None:
        return
    schema = resolved(schema)
    if schema.get("type") == "array":
        yield from ([body] for body in foreign_bodies(schema["items"], foreign, own))
        return
    usual = usual_body(schema, own)
    for name, field in schema.get("properties", {}).items():
        for value in foreign.get(name, []):
            yield {**usual, name: value}
        within = resolved(field)
        if "properties" in resolved(within.get("items", within)):
            yield from ({**usual, name: inner} for inner in foreign_bodies(within, foreign, own))


def fields(schema: Mapping[str, Any] | None) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The names and schemas of all fields of a body, at any depth."""
    if schema is None:
        return
    schema = resolved(schema)
    if schema.get("type") == "array":
        yield from fields(schema["items"])
    for name, field in schema.get("properties", {}).items():
        yield name, resolved(field)
        yield from fields(field)


def resolved(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema itself, where it is a reference or may be null."""
    for one in schema.get("oneOf", []):
        if one.get("type") != "null":
            return resolved(one)
    if "$ref" in schema:
        found: Mapping[str, Any] = document()["components"]["schemas"][
            schema["$ref"].rpartition("/")[2]
        ]
        return resolved(found)
    return schema


def _usual(name: str, schema: Mapping[str, Any], own: Mapping[str, Any]) -> Any:
    schema = resolved(schema)
    if "const" in schema:
        return schema["const"]
    if name in own or name in USUAL:
        return own[name] if name in own else USUAL[name]
    kinds: dict[str, Any] = {
        "string": "x" * 8,
        "integer": 1,
        "number": 1.0,
        "boolean": True,
        "array": [],
    }
    return kinds[schema["type"]] if schema.get("type") in kinds else usual_body(schema, own)
