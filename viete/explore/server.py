"""The served page: one address on this machine, opened with a random token.

Only requests with the token are answered. A page of another site in the same browser gets no answer
either: the Host and Origin of each request are checked, messages must be JSON, and there is no
CORS. The page only runs the scripts that it came with.
"""

from __future__ import annotations

import json
import socket
from asyncio import (
    FIRST_COMPLETED,
    TimerHandle,
    create_task,
    get_running_loop,
    timeout_at,
    wait,
    wrap_future,
)
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from hmac import compare_digest
from secrets import token_urlsafe
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers, QueryParams
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from viete.errors import VieteError
from viete.explore.page_file import page_html
from viete.explore.session import Session, plain, refusal
from viete.explore.worker import Stopped, Worker
from viete.regular import decoded

LOOPBACK = "127.0.0.1"
PATIENCE = 30  # seconds for the head of a request, and for its body
MOST = 32 * 2**20  # bytes of a message: a million weights, and more
QUIET = {
    "Cache-Control": "no-store", "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin", "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY",
}  # fmt: skip


class Reply(JSONResponse):
    """JSON of anything: no number is null, and half a character is written as its number."""

    def render(self, content: Any) -> bytes:
        """The bytes of an answer."""
        return json.dumps(plain(content), allow_nan=False).encode("ascii")


class Guard:
    """Passes only requests that name our own host, bring the token, and are not too large."""

    def __init__(self, app: ASGIApp, port: int, token: str, most: int = MOST) -> None:
        self.app, self.token, self.most = app, token, most
        names = (LOOPBACK, "localhost")
        self.hosts = {f"{name}:{port}" for name in names} | ({*names} if port == 80 else set())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request, or another event of the server."""
        if scope["type"] == "lifespan":
            return await self.app(scope, receive, send)
        if scope["type"] != "http":  # nothing here is a web socket
            return await send({"type": "websocket.close", "code": 1008})
        if refused := self.refused(Headers(scope=scope), QueryParams(scope["query_string"])):
            return await sentence(*refused)(scope, receive, send)
        await self.app(scope, limited(receive, self.most), send)

    def refused(self, headers: Headers, query: QueryParams) -> tuple[int, str] | None:
        """The status and the sentence for a refused request; None for an accepted one."""
        if headers.get("host", "").lower() not in self.hosts:
            return 403, "this page is served at the address that viete explore printed, no other"
        origin = headers.get("origin")
        if origin is not None and origin.lower() not in {f"http://{host}" for host in self.hosts}:
            return 403, "another page may not ask this model"
        scheme, _, given = headers.get("authorization", "").partition(" ")
        given = given if scheme.lower() == "bearer" else query.get("token", "")
        if not compare_digest(given.encode(), self.token.encode()):
            return 403, "the token of the address is missing, or is another server's: open the " \
                        "address that viete explore printed"  # fmt: skip
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > self.most:
            return 413, f"a message has at most {self.most:,} bytes"
        return None


def limited(receive: Receive, most: int) -> Receive:
    """A receiver of a body that stops at the allowed size, whatever length was announced.

    It stops too if the body takes longer than `PATIENCE`.
    """
    count, until = 0, get_running_loop().time() + PATIENCE
    whole = False

    async def part() -> Message:
        nonlocal count, whole
        try:
            async with timeout_at(None if whole else until):
                message = await receive()
        except TimeoutError:
            raise VieteError(f"a message comes within {PATIENCE} seconds") from None
        count += len(message.get("body", b""))
        whole = not message.get("more_body", False)
        if count > most:
            raise VieteError(f"a message has at most {most:,} bytes")
        return message

    return part


def sentence(status: int, text: str) -> Response:
    """A refusal in one sentence."""
    return Reply({"error": text}, status, headers=QUIET)


class Hurried(H11Protocol):
    """A connection that is closed if the head of a request takes longer than `PATIENCE`."""

    late: TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for a head."""
        super().connection_made(transport)
        self.hurry()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        super().connection_lost(exc)
        self.rest()

    def data_received(self, data: bytes) -> None:
        """Wait no longer once a head is complete, and again for that of the next request."""
        super().data_received(data)
        if self.cycle is None or self.cycle.response_complete:
            self.hurry()
        else:
            self.rest()

    def hurry(self) -> None:
        """Close the connection after a while, unless `rest` comes before."""
        if self.late is None:
            self.late = self.loop.call_later(PATIENCE, self.transport.close)

    def rest(self) -> None:
        """Let the connection stay."""
        if self.late is not None:
            self.late.cancel()
            self.late = None


class PageServer:
    """One session at one address; ``app`` answers requests."""

    def __init__(self, session: Session, port: int, token: str = "") -> None:
        self.session, self.worker = session, Worker()
        self.token = token or token_urlsafe(32)
        self.address = f"http://{LOOPBACK}:{port}"
        routes = [Route("/", self.page, methods=["GET"]),
                  Route("/message", self.message, methods=["POST"])]  # fmt: skip
        self.app: ASGIApp = Guard(Starlette(routes=routes), port, self.token)

    @property
    def url(self) -> str:
        """The address with its token, which opens the page."""
        return f"{self.address}/?token={self.token}"

    async def page(self, request: Request) -> Response:
        """The page, with the run that the session began with."""
        made = await self.done(request, "", self.page_text)
        if isinstance(made, Response):
            return made
        return HTMLResponse(made, headers=QUIET)

    def page_text(self) -> str:
        """The HTML of the page, with the server's address."""
        server = {"address": self.address, "token": self.token}
        return page_html({**self.session.data, "server": server})

    async def message(self, request: Request) -> Response:
        """The answer to a message, with the message's number."""
        if request.headers.get("content-type", "").split(";")[0].strip() != "application/json":
            return sentence(415, "a message is JSON: Content-Type: application/json")
        try:
            message = decoded(await request.body())
        except VieteError as error:
            return sentence(413, error.message)
        except ValueError:
            return sentence(400, "this message is not JSON")
        number = message.get("id") if isinstance(message, Mapping) else None
        kind = "run" if isinstance(message, Mapping) and message.get("kind") == "run" else ""
        made = await self.done(request, kind, partial(self.session.answer, message))
        if isinstance(made, Response):
            return made
        return Reply({**made, "id": number}, headers=QUIET)

    async def done(self, request: Request, kind: str, do: Callable[[], Any]) -> Any:
        """The result of some work, or the response that says why it has none.

        The work is stopped when the reader leaves, or asks for a newer run.
        """
        work = self.worker.start(kind, do)
        result, left = wrap_future(work.result), create_task(gone(request.receive))
        try:
            await wait({result, left}, return_when=FIRST_COMPLETED)
            if not result.done():
                work.stop()
            return await result
        except VieteError as error:
            return sentence(422, refusal(error))
        except Stopped:
            return sentence(409, "this was stopped: something newer was asked, or the page closed")
        finally:
            left.cancel()
            work.stop()


async def gone(receive: Callable[[], Awaitable[Message]]) -> None:
    """Wait until the reader has left."""
    while (await receive())["type"] != "http.disconnect":
        pass


def serve(session: Session, port: int = 0, tell: Callable[[str], None] = print) -> None:
    """Serve a session on this machine until Ctrl-C, which raises KeyboardInterrupt.

    ``port`` 0 is any free port; ``tell`` is called with the address. Raises VieteError for a port
    that is not available.
    """
    try:
        listening = socket.create_server((LOOPBACK, port))
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or error
        raise VieteError(
            f"--port {port} is not available ({why}); give another port, or none"
        ) from None
    with listening:
        found = PageServer(session, listening.getsockname()[1])
        found.page_text()  # what cannot be shown is said before there is an address
        tell(found.url)
        config = uvicorn.Config(found.app, log_level="warning", access_log=False, lifespan="off",
                                http=Hurried, timeout_graceful_shutdown=1,
                                server_header=False)  # fmt: skip
        uvicorn.Server(config).run([listening])
        raise KeyboardInterrupt  # which asyncio swallows where the server has ended before it


__all__ = ["Guard", "PageServer", "serve"]
