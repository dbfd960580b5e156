"""One request to a server that is not ours: no redirects, nothing compressed, and no more read than
was agreed."""

from collections.abc import Mapping

import httpx2

from taskforge.version import __version__

MOST_BYTES = 256 * 1024
_TIMEOUT = httpx2.Timeout(5.0)


async def fetch(
    url: str, form: Mapping[str, str] | None, headers: Mapping[str, str]
) -> tuple[int, bytes]:
    """Status and body; a form is posted. ConnectionError when there is no answer, or one that is
    too large.

    How long all of it may take is the caller's to say: a server that sends byte by byte never meets
    the timeout here."""
    sent = {
        "user-agent": f"taskforge/{__version__}",
        "accept": "application/json",
        "accept-encoding": "identity",
        **headers,
    }
    method = "GET" if form is None else "POST"
    try:
        async with (
            httpx2.AsyncClient(timeout=_TIMEOUT, follow_redirects=False) as client,
            client.stream(
                method, url, data=None if form is None else dict(form), headers=sent
            ) as answer,
        ):
            # A few bytes that unpack into gigabytes are refused before they are looked at.
            if answer.headers.get("content-encoding", "identity").strip().lower() != "identity":
                raise ConnectionError("the answer is compressed, which was not asked for")
            body = bytearray()
            async for part in answer.aiter_raw():
                body += part
                if len(body) > MOST_BYTES:
                    raise ConnectionError(f"the answer is larger than {MOST_BYTES // 1024} KiB")
            return answer.status_code, bytes(body)
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise ConnectionError(str(error) or type(error).__name__) from None
