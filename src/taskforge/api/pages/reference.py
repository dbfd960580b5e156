"""The API's reference: its document as one page that a person can read."""

from http import HTTPStatus
from typing import Any

from taskforge.api.entry.caller import ANYONE, PUBLIC
from taskforge.api.pages.markup import Html, document, element, joined, paragraphs, prose
from taskforge.api.pages.operation import Operation, sample_request
from taskforge.api.pages.schemas import Schema, Schemas, anchor, shown

SCRIPT = "reference.js"  # adds a search and buttons that copy; the page is whole without it
_METHODS = ("get", "post", "put", "patch", "delete")
_GREETING = """export SERVER=http://127.0.0.1:8080   # where this server listens
export API_KEY=tfk_…                  # the first start prints one

curl "$SERVER/api/v1/session" -H "Authorization: Bearer $API_KEY\""""


def reference(described: dict[str, Any]) -> bytes:
    """`described` is an OpenAPI document; nothing in it is taken for markup."""
    schemas = Schemas(described["components"]["schemas"])
    groups = _groups(described)
    info = described["info"]
    links = joined(
        element("a", "OpenAPI document", href="/api/v1/openapi.json"),
        element("a", "Home", href="/"),
    )
    content = element(
        "main",
        _introduction(info),
        *(_group(tag, about, operations, described, schemas) for tag, about, operations in groups),
        element(
            "section",
            element("h2", "Schemas"),
            *(_schema(name, schemas) for name in sorted(schemas.named)),
            class_="group",
            id="schemas",
        ),
        id="content",
    )
    frame = element("div", _navigation(groups, sorted(schemas.named)), content, class_="frame")
    return document(
        f"{info['title']} API reference", frame, kind="reference", links=links, script=SCRIPT
    )


def _groups(described: dict[str, Any]) -> list[tuple[str, str, list[Operation]]]:
    """Operations by their first tag, in the order of the document's tags."""
    every = [
        Operation(method, path, item[method])
        for path, item in described["paths"].items()
        for method in _METHODS
        if method in item
    ]
    about = {one["name"]: one.get("description", "") for one in described.get("tags", [])}
    for one in every:
        about.setdefault(_tag(one), "")
    grouped = [
        (tag, text, [one for one in every if _tag(one) == tag]) for tag, text in about.items()
    ]
    return [(tag, text, found) for tag, text, found in grouped if found]


def _tag(operation: Operation) -> str:
    return next(iter(operation.described.get("tags", [])), "Other")


def _navigation(groups: list[tuple[str, str, list[Operation]]], names: list[str]) -> Html:
    def block(title: str, target: str, rows: list[Html], *, opened: bool) -> Html:
        summary = element(
            "summary",
            element("a", title, href=f"#{target}"),
            element("span", str(len(rows)), class_="count"),
        )
        return element(
            "details", summary, element("ul", *(element("li", row) for row in rows)), open=opened
        )

    blocks = [
        block(
            tag,
            _slug(tag),
            [
                element("a", _badge(one.method), element("span", one.title), href=f"#{one.anchor}")
                for one in operations
            ],
            opened=True,
        )
        for tag, _, operations in groups
    ]
    schemas = [element("a", element("span", name), href=f"#{anchor(name)}") for name in names]
    return element(
        "nav",
        element("input", type="checkbox", id="menu", class_="toggle"),
        element("label", "Contents", for_="menu", class_="menu"),
        element(
            "div",
            element("a", "Start here", href="#start", class_="top"),
            *blocks,
            block("Schemas", "schemas", schemas, opened=False),
            class_="tree",
        ),
        class_="side",
        aria_label="Operations",
    )


def _introduction(info: dict[str, Any]) -> Html:
    return element(
        "section",
        element("h1", f"{info['title']} API"),
        paragraphs(info.get("description", "")),
        element(
            "p",
            prose(
                "Send an API key or an access token as `Authorization: Bearer …`. With the "
                "session cookie of a browser, a change "
                "also needs the session's token in the header `X-CSRF-Token`. Each operation "
                "names the permission that it needs."
            ),
        ),
        element(
            "figure",
            element("figcaption", "First request"),
            element("pre", element("code", _GREETING)),
        ),
        class_="intro",
        id="start",
    )


def _group(
    tag: str, about: str, operations: list[Operation], described: dict[str, Any], schemas: Schemas
) -> Html:
    heading = joined(
        element("h2", tag), element("p", prose(about), class_="about") if about else ""
    )
    parts = [_operation(one, described, schemas) for one in operations]
    return element("section", heading, *parts, class_="group", id=_slug(tag))


def _operation(operation: Operation, described: dict[str, Any], schemas: Schemas) -> Html:
    details = operation.described
    body = _json_of(details.get("requestBody", {}))
    text = joined(
        element("h3", element("a", operation.title, href=f"#{operation.anchor}")),
        element(
            "p", _badge(operation.method), element("code", *_broken(operation.path)), class_="route"
        ),
        paragraphs(details.get("description") or details.get("summary", "")),
        _permission(details.get("x-permission", "")),
        _parameters(details.get("parameters", []), schemas),
        "" if body is None else _body(body, schemas),
        _responses(details["responses"], described, schemas),
    )
    answered = next(
        (_json_of(one) for status, one in details["responses"].items() if status.startswith("2")),
        None,
    )
    samples = joined(
        element(
            "figure",
            element("figcaption", "Request"),
            element("pre", element("code", sample_request(operation, body, schemas))),
        ),
        ""
        if answered is None
        else element(
            "figure",
            element("figcaption", "Answer"),
            element("pre", element("code", shown(schemas.example(answered, whole=True)))),
        ),
    )
    columns = joined(element("div", text, class_="text"), element("div", samples, class_="samples"))
    return element("article", columns, class_="operation", id=operation.anchor)


def _permission(permission: str) -> Html:
    match permission:
        case "":
            return Html("")
        case _ if permission == PUBLIC:
            return element("p", "Open to everyone, no credential needed", class_="permission")
        case _ if permission == ANYONE:
            return element("p", "Any valid credential", class_="permission")
    return element("p", "Needs ", element("code", permission), class_="permission")


def _parameters(parameters: list[dict[str, Any]], schemas: Schemas) -> Html:
    rows = [
        [
            element("code", one["name"]),
            joined(one["in"]),
            schemas.type(one["schema"]),
            _required(is_so=one.get("required", False)),
            schemas.remarks(one["schema"], one.get("description", "")),
        ]
        for one in parameters
    ]
    return _table("Parameters", ["Name", "In", "Type", "Required", "Description"], rows)


def _body(body: Schema, schemas: Schemas) -> Html:
    kind = element("p", "JSON: ", schemas.type(body), class_="kind")
    return joined(
        _table(
            "Request body",
            ["Field", "Type", "Required", "Description"],
            _rows(body, schemas, nested=True),
            kind,
        )
    )


def _rows(schema: Schema, schemas: Schemas, *, nested: bool) -> list[list[Html]]:
    """One row for each field; `nested` puts those of a field that has fields itself below it."""
    rows = []
    for name, part in schemas.fields(schema).items():
        required = _required(is_so=name in schemas.required(schema))
        rows.append([element("code", name), schemas.type(part), required, schemas.remarks(part)])
        for inner, below in schemas.fields(part).items() if nested else ():
            label = element("code", element("span", f"{name}.", class_="outer"), inner)
            is_so = _required(is_so=inner in schemas.required(part))
            rows.append([label, schemas.type(below), is_so, schemas.remarks(below)])
    return rows


def _responses(answers: dict[str, Any], described: dict[str, Any], schemas: Schemas) -> Html:
    good: list[list[Html]] = []
    bad: list[list[Html]] = []
    for status, answer in answers.items():
        found = _followed(answer, described)
        kinds = [
            schemas.type(one["schema"])
            for one in found.get("content", {}).values()
            if one.get("schema")
        ]
        row = [
            element("span", status, class_=f"status s{status[:1]}"),
            prose(_meaning(status, found)),
            joined(*kinds),
        ]
        (bad if status[:1] in "45" else good).append(row)
    heads = ["Status", "Meaning", "Content"]
    chips = [
        element("span", status, class_=f"status s{status[:1]}")
        for status in answers
        if status[:1] in "45"
    ]
    folded = element(
        "details",
        element("summary", "Problems ", *chips),
        _table("", heads, bad),
        class_="problems",
    )
    return joined(_table("Responses", heads, good), folded if bad else "")


def _meaning(status: str, answer: dict[str, Any]) -> str:
    """The framework fills in what the standard says of a status; its name says the same in fewer
    words."""
    known = HTTPStatus(int(status)) if status.isdigit() else None
    text: str = answer.get("description", "")
    return known.phrase if known is not None and text in ("", known.description) else text


def _schema(name: str, schemas: Schemas) -> Html:
    schema = schemas.named[name]
    rows = _rows(schema, schemas, nested=False)
    content = _table("", ["Field", "Type", "Required", "Description"], rows)
    if not rows:
        content = element("p", schemas.type(schema), schemas.remarks(schema))
    about = paragraphs(schema.get("description", "")) if rows else Html("")
    heading = element("h3", element("a", name, href=f"#{anchor(name)}"))
    return element("article", heading, about, content, class_="schema", id=anchor(name))


def _table(title: str, heads: list[str], rows: list[list[Html]], before: str = "") -> Html:
    if not rows:
        return joined(element("h4", title), before) if before else Html("")
    if heads[-1] == "Description" and not any(row[-1] for row in rows):
        heads, rows = heads[:-1], [row[:-1] for row in rows]
    head = element("tr", *(element("th", one, scope="col") for one in heads))
    lines = [
        element(
            "tr", *(element("td", cell, class_=heads[at].lower()) for at, cell in enumerate(row))
        )
        for row in rows
    ]
    table = element("table", element("thead", head), element("tbody", *lines))
    return joined(
        element("h4", title) if title else "", before, element("div", table, class_="scroll")
    )


def _json_of(holder: dict[str, Any]) -> Schema | None:
    schema: Schema | None = holder.get("content", {}).get("application/json", {}).get("schema")
    return schema or None


def _followed(answer: dict[str, Any], described: dict[str, Any]) -> dict[str, Any]:
    if "$ref" not in answer:
        return answer
    found: dict[str, Any] = described["components"]["responses"][answer["$ref"].rsplit("/", 1)[1]]
    return found


def _required(*, is_so: bool) -> Html:
    return (
        element("span", "required", class_="must")
        if is_so
        else element("span", "optional", class_="may")
    )


def _badge(method: str) -> Html:
    return element(
        "span", "DEL" if method == "delete" else method.upper(), class_=f"method {method}"
    )


def _broken(path: str) -> list[Html]:
    """A long path may break after a slash."""
    return [joined(f"{part}/", Html("<wbr>")) for part in path.split("/")[:-1]] + [
        joined(path.rsplit("/", 1)[1])
    ]


def _slug(tag: str) -> str:
    return "tag-" + "".join(one if one.isalnum() else "-" for one in tag.lower())
