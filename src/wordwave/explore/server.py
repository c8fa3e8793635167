"""The explorer on loopback: static files, and one JSON API with validated input."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from reprlib import repr as clipped
from typing import Any, TypedDict

from wordwave.config_io import conform
from wordwave.errors import WordwaveError
from wordwave.explore.page import SECURITY, STATIC, TYPES, live_page
from wordwave.explore.session import MOST_EDITS, Edit, Session
from wordwave.text.tokenizers import import_extra

MOST_BODY = 256 * 1024
"""Bytes of a request."""
HOST = "127.0.0.1"
RANGES = {"amplitude": (0, 10), "frequency": (-10, 10), "phase": (-10, 10), "damping": (0, 10)}
"""Of the numbers of an edit."""


class _Text(TypedDict):
    text: str


class _Sentence(TypedDict):
    text: str
    order: list[int]
    edits: list[dict[str, float | int | None]]


class _Moved(_Sentence):
    place: int


class _Ids(TypedDict):
    ids: list[int]
    before: list[int]


class _Word(TypedDict):
    id: int


class _Nothing(TypedDict):
    pass


def requests_of(session: Session) -> dict[str, tuple[Any, Callable[[Any], dict[str, Any]]]]:
    """What can be asked: the type of the JSON, and the function that answers."""

    def sentence(given: Any) -> tuple[str, list[int], list[Edit]]:
        return given["text"], given["order"], _edits(given["edits"])

    return {
        "tokens": (_Text, lambda given: session.tokens(given["text"])),
        "predict": (_Sentence, lambda given: session.predict(*sentence(given))),
        "sensitivity": (_Sentence, lambda given: session.sensitivity(*sentence(given))),
        "sweep": (
            _Moved,
            lambda given: session.sweep(*sentence(given), given["place"]),
        ),
        "waves": (_Ids, lambda given: session.waves(given["ids"], given["before"])),
        "vocabulary": (_Nothing, lambda given: session.vocabulary()),
        "nearest": (_Word, lambda given: session.nearest(given["id"])),
    }


def _edits(given: list[Any]) -> list[Edit]:
    if len(given) > MOST_EDITS:
        raise WordwaveError(f"edits must be at most {MOST_EDITS}, got {len(given)}")
    edits: list[Edit] = [conform(one, Edit, where="an edit") for one in given]
    for edit in edits:
        for name, (low, high) in RANGES.items():
            value = edit[name]  # type: ignore[literal-required]
            if not low <= value <= high:
                raise WordwaveError(f"{name} must be in [{low}, {high}], got {clipped(value)}")
    return edits


def build_app(session: Session, port: int) -> Any:
    """The ASGI application, for requests to this port of the loopback interface only."""
    import_extra("starlette")
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import Response
    from starlette.routing import Route

    kinds = requests_of(session)
    names = (HOST, "localhost")
    hosts = {f"{name}:{port}" for name in names} | ({*names} if port == 80 else set())

    def answered(found: Any, status: int = 200) -> Response:
        # Words may hold halves of characters, which only an escape can hold.
        try:
            text = json.dumps(found, allow_nan=False)
        except ValueError:
            text, status = json.dumps({"error": "the model's weights are not finite"}), 422
        return Response(text, status, SECURITY, "application/json")

    def refused(line: str, status: int) -> Response:
        return answered({"error": line}, status)

    def stranger(request: Request) -> str | None:
        """Why a request is refused: another site, or a name that was made to point here."""
        host, origin = request.headers.get("host"), request.headers.get("origin")
        if host not in hosts:
            return f"the Host must be {HOST}:{port}, got {clipped(host)}"
        if origin is not None and origin != f"http://{host}":
            return f"the Origin must be http://{host}, got {clipped(origin)}"
        if request.headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
            return "requests of other sites are refused"
        return None

    async def page(request: Request) -> Response:
        if line := stranger(request):
            return refused(line, 403)
        return Response(live_page(session.about()), media_type=TYPES["html"], headers=SECURITY)

    async def static(request: Request) -> Response:
        if line := stranger(request):
            return refused(line, 403)
        content = STATIC.get(request.path_params["name"])
        if content is None:
            return refused("there is no such file", 404)
        ending = request.path_params["name"].rpartition(".")[2]
        return Response(content(), media_type=TYPES[ending], headers=SECURITY)

    async def api(request: Request) -> Response:
        if line := stranger(request):
            return refused(line, 403)
        if request.path_params["verb"] not in kinds:
            return refused("there is no such request", 404)
        if request.headers.get("content-type", "").split(";")[0] != "application/json":
            return refused("the request must be application/json", 415)
        too_large = refused(f"the request is larger than {MOST_BODY:,} bytes", 413)
        length = request.headers.get("content-length", "")
        if length.isdecimal() and int(length) > MOST_BODY:
            return too_large  # not waited for
        body = b""
        try:
            async for chunk in request.stream():
                body += chunk
                if len(body) > MOST_BODY:
                    return too_large
        except ClientDisconnect:
            return refused("the request is incomplete", 400)  # nobody reads this
        kind, answer = kinds[request.path_params["verb"]]
        try:
            found = await run_in_threadpool(lambda: answer(_parsed(body, kind)))
        except WordwaveError as problem:
            return refused(str(problem), 400)
        return answered(found)

    return Starlette(
        routes=[
            Route("/", page),
            Route("/static/{name}", static),
            Route("/api/{verb}", api, methods=["POST"]),
        ]
    )


def _parsed(body: bytes, kind: Any) -> Any:
    try:
        given = json.loads(body)
    except (ValueError, RecursionError):
        raise WordwaveError("the request must be JSON") from None
    return conform(given, kind, where="the request")


def bound_socket(port: int) -> socket.socket:
    """A socket on loopback; port 0 takes a free one."""
    found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((HOST, port))
        found.listen(64)
    except OSError as problem:
        found.close()
        raise WordwaveError(
            f"port {port} cannot be used ({problem.strerror}): choose another --port, or none for "
            "a free one"
        ) from None
    return found


def serve(session: Session, *, port: int = 0, ready: Callable[[str], None]) -> None:
    """Serve the explorer on 127.0.0.1 until Ctrl-C.

    Args:
        port: 0 for a free one.
        ready: is called with the address once it can be opened.
    """
    uvicorn = import_extra("uvicorn")
    found = bound_socket(port)
    port = found.getsockname()[1]
    app = build_app(session, port)

    class Server(uvicorn.Server):  # type: ignore[misc, name-defined]
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets=sockets)
            ready(f"http://{HOST}:{port}/")

    config = uvicorn.Config(
        app, log_level="warning", access_log=False, server_header=False, lifespan="off",
        limit_concurrency=32, timeout_graceful_shutdown=1,
    )  # fmt: skip
    with found:
        Server(config).run(sockets=[found])
