"""One operation of the API's document, and the request that shows how it is called."""

from typing import Any

import msgspec

from taskforge.api.entry.caller import PUBLIC
from taskforge.api.pages.markup import Html, joined
from taskforge.api.pages.schemas import Schema, Schemas, shown


class Operation(msgspec.Struct, frozen=True):
    method: str
    path: str
    described: dict[str, Any]

    @property
    def anchor(self) -> str:
        return str(self.described["operationId"])

    @property
    def title(self) -> str:
        words = self.anchor.replace("_", " ").capitalize()
        return f"{words} a project" if words.endswith(" in") and "{project}" in self.path else words


def sample_request(operation: Operation, body: Schema | None, schemas: Schemas) -> Html:
    path, details = operation.path, operation.described
    asked = []
    for one in details.get("parameters", []):
        example = schemas.example(one["schema"], one["name"], whole=False)
        if one["in"] == "path":
            path = path.replace("{" + one["name"] + "}", str(example))
        elif one["in"] == "query" and one.get("required"):
            asked.append(f"{one['name']}={example}")
    verb = "" if operation.method == "get" else f"-X {operation.method.upper()} "
    stream = any(
        "text/event-stream" in one.get("content", {}) for one in details["responses"].values()
    )
    query = "?" + "&".join(asked) if asked else ""
    lines = [joined(f'curl {"-N " if stream else ""}{verb}"$SERVER{path}{query}"')]
    if details.get("x-permission") != PUBLIC:
        lines.append(joined('-H "Authorization: Bearer $API_KEY"'))
    if body is not None:
        lines.append(joined('-H "Content-Type: application/json"'))
        lines.append(joined("-d '", _for_shell(schemas.example(body, whole=False)), "'"))
    return joined(
        *(line if number == 0 else joined(" \\\n  ", line) for number, line in enumerate(lines))
    )


def _for_shell(value: Any) -> Html:
    """Between single quotes, another one is written so."""
    return Html(shown(value).replace("&#x27;", r"&#x27;\&#x27;&#x27;"))
