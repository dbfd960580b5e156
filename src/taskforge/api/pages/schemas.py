"""Reads JSON Schema as the API's document has it: what to call a type, which fields it has, what an
example looks like."""

import re
from typing import Any

import msgspec

from taskforge.api.pages.markup import Html, element, joined, prose

Schema = dict[str, Any]
_REFERENCE = "#/components/schemas/"
_UUID = "0198c2f4-7a31-7c06-9d5e-3b8f41a6d210"
_TIME = "2030-01-31T09:00:00Z"
_BY_FORMAT = {"uuid": _UUID, "date-time": _TIME, "date": "2030-01-31", "uri": "https://example.com"}
_BY_NAME: dict[str, Any] = {
    "action": "cancel",
    "actor": "user:ada@example.com",
    "attempt_count": 0,
    "cancel_requested": False,
    "crash_count": 0,
    "current_password": "the password you have",
    "email": "ada@example.com",
    "existed": False,
    "host": "worker-1.internal",
    "idempotency_key": "order-1042",
    "job_type": "send_email",
    "key": "tfk_…",
    "kind": "key",
    "level": "info",
    "max_attempts": 5,
    "name": "emails",
    "new_password": "correct horse battery staple",
    "organization": "acme",
    "output": {"sent": True},
    "owner_email": "ada@example.com",
    "password": "correct horse battery staple",
    "payload": {"to": "ada@example.com"},
    "permissions": ["job:read", "job:write"],
    "project": "default",
    "queue": "emails",
    "reason": "no longer needed",
    "redacted": False,
    "result": {"sent": True},
    "role": "operator",
    "status": "pending",
    "tags": ["welcome"],
    "version": 3,
}
_DEEPEST = 4


class Schemas:
    def __init__(self, named: dict[str, Schema]) -> None:
        self.named = named

    def resolved(self, schema: Schema) -> Schema:
        """Past references, and past the null of what may be left out."""
        for _ in range(10):
            if "$ref" in schema:
                schema = self.named.get(schema["$ref"].removeprefix(_REFERENCE), {})
            elif len(kinds := _kinds(schema)) == 1:
                schema = kinds[0]
            else:
                break
        return schema

    def fields(self, schema: Schema) -> dict[str, Schema]:
        """Of an object, or of the objects in a list."""
        found = self.resolved(schema)
        if found.get("type") == "array":
            found = self.resolved(found.get("items", {}))
        properties: dict[str, Schema] = found.get("properties", {})
        return properties

    def required(self, schema: Schema) -> list[str]:
        found = self.resolved(schema)
        if found.get("type") == "array":
            found = self.resolved(found.get("items", {}))
        names: list[str] = found.get("required", [])
        return names

    def type(self, schema: Schema) -> Html:
        """The type in words, with links to what has a name."""
        if "$ref" in schema:
            name = schema["$ref"].removeprefix(_REFERENCE)
            return element("a", name, href=f"#{anchor(name)}")
        if kinds := schema.get("oneOf") or schema.get("anyOf"):
            words = [self.type(one) for one in kinds]
            return joined(
                *(one if number == 0 else joined(" or ", one) for number, one in enumerate(words))
            )
        kind = schema.get("type", "any")
        if isinstance(kind, list):
            return joined(" or ".join(kind))
        if kind == "array":
            return joined("list of ", self.type(schema.get("items", {})))
        return joined(str(schema.get("format", kind)))

    def remarks(self, schema: Schema, description: str = "") -> Html:
        """What else there is to know of a field: its description, what it may be, and what it is
        when left out."""
        found = self.resolved(schema)
        inside = self.resolved(found.get("items", {})) if found.get("type") == "array" else found
        text = description or schema.get("description", "")
        said = [prose(text)] if text else []
        if "enum" in inside:
            options = [element("code", str(one)) for one in inside["enum"]]
            said.append(
                joined(
                    "One of ",
                    *(
                        one if number == 0 else joined(", ", one)
                        for number, one in enumerate(options)
                    ),
                )
            )
        if limits := _limits(inside):
            said.append(joined(limits))
        if (left_out := schema.get("default")) is not None:
            said.append(joined("Default ", element("code", msgspec.json.encode(left_out).decode())))
        return joined(*(element("span", one, class_="remark") for one in said))

    def example(self, schema: Schema, name: str = "", *, whole: bool, depth: int = 0) -> Any:
        """`whole`: every field, as an answer has them; else those that must be sent, or the first
        where none must."""
        if schema.get("default") is not None:
            return schema["default"]
        found = self.resolved(schema)
        if kinds := _kinds(found):
            return (
                self.example(kinds[0], name, whole=whole, depth=depth + 1)
                if depth < _DEEPEST
                else {}
            )
        if "const" in found or "enum" in found:
            return found["const"] if "const" in found else found["enum"][0]
        if name in _BY_NAME and (_fits(_BY_NAME[name], found.get("type"))):
            return _BY_NAME[name]
        match found.get("type"):
            case "array":
                return [
                    self.example(
                        found.get("items", {}), name.removesuffix("s"), whole=whole, depth=depth + 1
                    )
                ]
            case "object" | None if "properties" in found and depth < _DEEPEST:
                properties = found["properties"]
                needed = (
                    [*found["required"], "payload"]
                    if found.get("required")
                    else list(properties)[:1]
                )
                chosen = list(properties) if whole else needed
                return {
                    one: self.example(part, one, whole=whole, depth=depth + 1)
                    for one, part in properties.items()
                    if one in chosen
                }
            case "string":
                return _BY_FORMAT.get(found.get("format", ""), _word(name))
            case "integer":
                return int(found.get("minimum", 1))
            case "number":
                return float(found.get("minimum", 1.5))
            case "boolean":
                return True
            case _:
                return {}


def anchor(name: str) -> str:
    return f"schema-{name}"


def shown(value: Any) -> Html:
    """JSON on several lines, its parts told apart."""
    text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    return joined(
        *map(
            _token,
            re.split(
                r'("(?:[^"\\]|\\.)*"(?:\s*:)?|-?\d[\d.eE+-]*|\btrue\b|\bfalse\b|\bnull\b)', text
            ),
        )
    )


def _token(part: str) -> Html:
    if part.startswith('"'):
        return element("span", part, class_="k" if part.endswith(":") else "s")
    if part in ("true", "false", "null") or part[:1].isdigit() or part[:1] == "-":
        return element("span", part, class_="n")
    return joined(part)


def _kinds(schema: Schema) -> list[Schema]:
    return [
        one for one in schema.get("oneOf") or schema.get("anyOf") or [] if one != {"type": "null"}
    ]


def _limits(schema: Schema) -> str:
    for least, most, unit in (
        ("minimum", "maximum", ""),
        ("minLength", "maxLength", " characters"),
        ("minItems", "maxItems", " items"),
    ):
        if least in schema and most in schema:
            return f"{_number(schema[least])} to {_number(schema[most])}{unit}"
        if least in schema:
            return f"At least {_number(schema[least])}{unit}"
        if most in schema:
            return f"At most {_number(schema[most])}{unit}"
    return ""


def _number(value: float) -> str:
    return f"{int(value):,}" if value == int(value) else f"{value:,}"


def _fits(value: Any, kind: str | None) -> bool:
    match kind:
        case "string":
            return isinstance(value, str)
        case "array":
            return isinstance(value, list)
        case "object":
            return isinstance(value, dict)
        case "integer":
            return isinstance(value, int)
        case "boolean":
            return isinstance(value, bool)
        case _:
            return kind is None


def _word(name: str) -> str:
    return (
        f"{name.removesuffix('_token')}_…"
        if "token" in name or "secret" in name
        else name.replace("_", " ") or "text"
    )
