"""The way in and the entrance: two small pages with one form each."""

from taskforge.api.pages.markup import document, element, joined, prose

_NO_DASHBOARD = prose(
    "The dashboard is not built here. It comes with the wheel; in a clone, `make dashboard` builds "
    "it (it needs Node 20 or newer), and the next start of the server has it."
)


def login_page(token: str, problem: str = "", *, single_sign_on: bool = False) -> bytes:
    """Opening a link does not use it up: whoever previews links would log in. Only the button
    does."""
    notice = (
        element("p", problem[:1].upper() + problem[1:] + ".", class_="notice bad", role="alert")
        if problem
        else ""
    )
    if token:
        lead = "Your one-time link is ready. It works once."
        field = element("input", type="hidden", name="token", value=token)
    else:
        lead = (
            "Paste the token of your one-time login link. The first start of the server prints one."
        )
        field = joined(
            element("label", "One-time token", for_="token"),
            element(
                "input",
                type="text",
                name="token",
                id="token",
                required=True,
                autocomplete="off",
                spellcheck="false",
            ),
        )
    form = element(
        "form", field, element("button", "Log in", type="submit"), method="post", action="/login"
    )
    # A link and not a form: the policy lets forms lead nowhere but here, and this one would be sent
    # on to the provider.
    elsewhere = (
        element(
            "p", element("a", "Log in with single sign-on", href="/login/oidc", class_="button")
        )
        if single_sign_on
        else ""
    )
    card = element(
        "div", element("h1", "Log in"), notice, element("p", lead), form, elsewhere, class_="card"
    )
    return document("Log in · TaskForge", element("main", card, id="content"), kind="entrance")


def landing_page(who: tuple[str, str, str] | None, csrf_token: str) -> bytes:
    """`who`: email, organization and role of whoever is logged in."""
    if who is None:
        state = joined(
            element("p", "You are not logged in."),
            element("p", element("a", "Log in", href="/login", class_="button")),
        )
    else:
        email, organization, role = who
        facts = [("User", email), ("Organization", organization), ("Role", role)]
        state = joined(
            element(
                "dl",
                *(
                    element("div", element("dt", name), element("dd", value))
                    for name, value in facts
                ),
            ),
            element(
                "form",
                element("input", type="hidden", name="csrf_token", value=csrf_token),
                element("button", "Log out", type="submit", class_="quiet"),
                method="post",
                action="/logout",
            ),
        )
    places = [
        ("/api/v1/docs", "API reference", "Every operation, with examples"),
        ("/api/v1/openapi.json", "OpenAPI document", "For generated clients and tools"),
        ("/readyz", "Readiness", "Whether the store answers"),
    ]
    links = [
        element("li", element("a", element("strong", name), element("span", about), href=to))
        for to, name, about in places
    ]
    card = element(
        "div", element("h1", "TaskForge"), state, element("p", _NO_DASHBOARD), class_="card"
    )
    menu = element("nav", element("ul", *links, class_="places"), aria_label="Pages")
    return document("TaskForge", element("main", card, menu, id="content"), kind="entrance")


def refused_page(problem: str) -> bytes:
    card = element(
        "div",
        element("h1", "Not done"),
        element("p", problem, class_="notice bad", role="alert"),
        element("p", element("a", "Go to the start page", href="/")),
        class_="card",
    )
    return document("Not done · TaskForge", element("main", card, id="content"), kind="entrance")
