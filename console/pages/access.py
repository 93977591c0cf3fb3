"""Access control: which requests reach the pages, and the headers of every response.

The console listens on loopback, which other users of the machine and pages of other web sites can
reach, too. A request passes if it has the cookie that only the printed URL sets, and if its Host
header has the console's own name.

Browsers send a cookie to every port of a host (RFC 6265, 8.5). So each console has a secret name
below ``localhost``, which browsers resolve to loopback (RFC 6761, 6.3): a server of another user on
another port receives the cookie only if it knows this name. A name that an attacker rebinds to
127.0.0.1 does not pass either.
"""

import hmac
import re
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final
from urllib.parse import parse_qs

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

HEADERS: Final = (
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self';"
        b" connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
COOKIE: Final = "tessera-console"
_HTTP_PORT: Final = 80  # the port that browsers leave out
_HOST: Final = re.compile(r"([^:]+)(?::([0-9]{1,5}))?")
_METHODS: Final = ("GET", "HEAD", "POST")
_NO_TOKEN: Final = (
    "this page needs the token of the URL that `tessera ui` has printed; open that URL again"
)
_WELCOME: Final = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>Tessera</title>'
    '<meta http-equiv="refresh" content="0;url=/"><p><a href="/">Continue</a></p></html>'
)


class Access:
    """Passes requests with the console's Host and cookie on to the application.

    ``token`` is the secret in the printed URL, and the value of the cookie; ``host`` is the name in
    that URL. With ``port``, the Host header must name this port; without it any port may be named,
    as `kubectl port-forward` chooses one on the user's machine.
    """

    def __init__(self, app: App, token: str, host: str, port: int | None) -> None:
        self._app = app
        self._token = token
        self._host = host
        self._port = port

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request, or refuse it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            raise ValueError(f"{scope['type']}: not supported")

        async def secured(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *HEADERS]
            await send(message)

        headers: dict[str, list[str]] = {}
        for key, value in scope["headers"]:
            headers.setdefault(key.decode("latin-1").lower(), []).append(value.decode("latin-1"))
        if not self._is_own_host(headers.get("host", [])):
            await _answer(secured, 421, "the Host header does not name this console")
        elif scope["method"] not in _METHODS:
            await _answer(secured, 405, "only GET, HEAD and POST are served")
        elif self._is_foreign(headers):
            await _answer(secured, 403, "the request comes from another site")
        elif self._has_cookie(headers.get("cookie", [])):
            await self._app(scope, receive, secured)
        elif scope["path"] == "/" and self._has_token(scope):
            cookie = f"{COOKIE}={self._token}; Path=/; HttpOnly; SameSite=Strict"
            # A page and no redirection: after a redirection from another site, browsers send no
            # cookie that is SameSite=Strict.
            extra = ((b"set-cookie", cookie.encode()),)
            await _answer(secured, 200, _WELCOME, b"text/html; charset=utf-8", extra)
        else:
            await _answer(secured, 401, _NO_TOKEN)

    def _is_own_host(self, hosts: list[str]) -> bool:
        if len(hosts) != 1:
            return False
        match = _HOST.fullmatch(hosts[0])
        if match is None or not _is_equal(match[1].lower(), self._host):
            return False
        return self._port is None or int(match[2] or _HTTP_PORT) == self._port

    def _is_foreign(self, headers: dict[str, list[str]]) -> bool:
        """Return whether a page of another origin has sent the request, as browsers report it.

        A link or a bookmark may lead here from anywhere, so navigations pass.
        """
        site = headers.get("sec-fetch-site", ["same-origin"])[0]
        navigates = headers.get("sec-fetch-mode", [""])[0] == "navigate"
        if "origin" in headers:
            origin = headers["origin"][0]
            if origin != f"http://{headers['host'][0]}":
                return True
        return site not in ("same-origin", "none") and not navigates

    def _has_cookie(self, cookies: list[str]) -> bool:
        """Return whether a Cookie header has the token; other cookies may have any form."""
        for pair in ";".join(cookies).split(";"):
            name, _, value = pair.partition("=")
            if name.strip() == COOKIE and self._matches(value.strip()):
                return True
        return False

    def _has_token(self, scope: Scope) -> bool:
        query = parse_qs(scope["query_string"].decode("latin-1"), max_num_fields=16)
        return any(map(self._matches, query.get("token", [])))

    def _matches(self, text: str) -> bool:
        return _is_equal(text, self._token)


def _is_equal(text: str, secret: str) -> bool:
    """Compare with a secret, in a time that does not depend on where they differ."""
    return hmac.compare_digest(text.encode(), secret.encode())


async def _answer(
    send: Send,
    status: int,
    text: str,
    kind: bytes = b"text/plain; charset=utf-8",
    extra: tuple[tuple[bytes, bytes], ...] = (),
) -> None:
    body = f"{text}\n".encode()
    length = str(len(body)).encode()
    # Only clients with the cookie keep a connection open.
    close = (b"connection", b"close")
    headers = [(b"content-type", kind), (b"content-length", length), close, *extra]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
