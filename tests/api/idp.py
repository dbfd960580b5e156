"""An OpenID provider on this machine, with real keys, that can be told to misbehave."""

import asyncio
import base64
import hashlib
import json
import socket
import time
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode

import uvicorn
from joserfc import jws
from joserfc.errors import SecurityWarning
from joserfc.jwk import RSAKey

CLIENT, SECRET = "task:forge", "a secret/with+signs"
ADA = "ada@example.com"
OURS, THEIRS = RSAKey.generate_key(2048, {"kid": "one"}), RSAKey.generate_key(2048, {"kid": "one"})
with warnings.catch_warnings():
    warnings.simplefilter("ignore", SecurityWarning)
    WEAK = RSAKey.generate_key(1024, {"kid": "weak"})


def by_us(header: dict[str, Any], claims: dict[str, Any]) -> str:
    return jws.serialize_compact(header, json.dumps(claims).encode(), OURS)


class _Quiet(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class Idp:
    """Logs everyone in as whoever the test says."""

    def __init__(self) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.issuer = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        self.keys: list[Any] = [OURS]
        self.claims: dict[str, Any] = {}
        self.header: dict[str, Any] = {}
        self.metadata: dict[str, Any] = {}
        self.sign: Callable[[dict[str, Any], dict[str, Any]], str] = by_us
        self.instead: dict[str, tuple[int, bytes]] = {}
        self.packed = False
        self.codes_last = False
        self.codes: dict[str, dict[str, str]] = {}
        self.asked: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        path = scope["path"]
        self.asked.append(path)
        body = b""
        while (message := await receive()).get("more_body", False) or message.get("body"):
            body += message["body"]
            if not message["more_body"]:
                break
        status, answer, headers = 200, b"", [(b"content-type", b"application/json")]
        if path in self.instead:
            status, answer = self.instead[path]
            if self.packed:
                headers.append((b"content-encoding", b"gzip"))
            if status == 302:
                headers.append((b"location", answer))
        elif path == "/.well-known/openid-configuration":
            answer = json.dumps(self.described()).encode()
        elif path == "/jwks":
            answer = json.dumps(
                {"keys": [key.as_dict(private=False, use="sig") for key in self.keys]}
            ).encode()
        elif path == "/authorize":
            status = 302
            headers.append(
                (
                    b"location",
                    self.authorize(dict(parse_qsl(scope["query_string"].decode()))).encode(),
                )
            )
        elif path == "/token":
            status, answer = self.token(
                dict(scope["headers"]),
                {name: one[0] for name, one in parse_qs(body.decode()).items()},
            )
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": answer})

    def described(self) -> dict[str, Any]:
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/jwks",
            "unknown": 1,
            **self.metadata,
        }

    def authorize(self, asked: dict[str, str]) -> str:
        assert asked["response_type"] == "code"
        assert asked["client_id"] == CLIENT
        assert set(asked["scope"].split()) == {"openid", "email"}
        assert asked["code_challenge_method"] == "S256"
        code = f"code/{len(self.codes)}"
        self.codes[code] = asked
        return f"{asked['redirect_uri']}?{urlencode({'code': code, 'state': asked['state']})}"

    def token(self, headers: dict[bytes, bytes], form: dict[str, str]) -> tuple[int, bytes]:
        if self.metadata.get("token_endpoint_auth_methods_supported") == ["client_secret_post"]:
            assert (form["client_id"], form["client_secret"]) == (CLIENT, SECRET)
        else:
            assert headers[b"authorization"] == b"Basic " + base64.b64encode(
                b"task%3Aforge:a+secret%2Fwith%2Bsigns"
            )
            assert "client_secret" not in form
        asked = (
            self.codes.get(form["code"], {})
            if self.codes_last
            else self.codes.pop(form["code"], {})
        )
        challenge = (
            base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest())
            .rstrip(b"=")
            .decode()
        )
        if (
            asked.get("code_challenge") != challenge
            or asked["redirect_uri"] != form["redirect_uri"]
        ):
            return 400, b'{"error": "invalid_grant"}'
        now = int(time.time())
        claims = {
            "iss": self.issuer,
            "sub": "u1",
            "aud": CLIENT,
            "iat": now,
            "exp": now + 300,
            "nonce": asked["nonce"],
        }
        claims |= {"email": ADA, "email_verified": True, **self.claims}
        said = {name: value for name, value in claims.items() if value is not ...}
        header = {
            name: value
            for name, value in {"alg": "RS256", "kid": "one", **self.header}.items()
            if value is not ...
        }
        return 200, json.dumps(
            {"access_token": "x", "token_type": "Bearer", "id_token": self.sign(header, said)}
        ).encode()


@asynccontextmanager
async def running_idp() -> AsyncIterator[Idp]:
    made = Idp()
    server = _Quiet(uvicorn.Config(made, lifespan="off", log_config=None, ws="none"))
    running = asyncio.create_task(server.serve(sockets=[made.socket]))
    try:
        yield made
    finally:
        server.should_exit = True
        await running
        made.socket.close()
