"""Stand between a client and a simulated Trilium server, and answer wrongly, as proxies and caches do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from notarium_devtools.http_server import Request, Response
from notarium_devtools.trilium import TriliumSimulator

PAGE = b"<!DOCTYPE html><html><body><form>Sign in to the company proxy</form></body></html>"
_HTML, _JSON = "text/html; charset=utf-8", "application/json; charset=utf-8"
_CUT = 0.5


def endpoint_of(request: Request) -> str:  # noqa: C901, PLR0911 - one line a route
    """Name what a request asks for."""
    match request.method, request.segments[1:]:
        case _, ("setup", "status"):
            return "status"
        case "GET", ("metrics",):
            return "totals"
        case "GET", ("notes",):
            return "changed" if "utcDateModified >=" in request.query["search"] else "listing"
        case "GET", ("notes", _):
            return "note"
        case "GET", ("notes", _, "content"):
            return "content"
        case "PUT", ("notes", _, "content"):
            return "put"
        case "PATCH", ("notes", _):
            return "patch"
        case "POST", ("notes", _, "revision"):
            return "revision"
        case "GET", ("notes", _, "revisions"):
            return "revisions"
        case "GET", ("revisions", *_):
            return "old content"
        case _, ("attributes", *_):
            return "attribute"
    return ""


ENDPOINTS = (
    "status", "totals", "changed", "listing", "note", "content", "put", "patch", "revision", "revisions",
    "attribute",
)  # fmt: skip


class LyingTrilium(TriliumSimulator):
    """Answer requests of one endpoint wrongly. ``other``: the id of the note that is answered instead."""

    def __init__(self, other: str) -> None:
        super().__init__()
        self.other = other
        self.lie: tuple[str, str] | None = None
        self.told = 0
        self._yesterday: dict[tuple[str, str], Response] = {}

    async def respond(self, request: Request) -> Response:
        """Answer truly, and remember that, or wrongly."""
        key = (endpoint_of(request), request.path)
        if self.lie is None:
            answer = await super().respond(_plain(request))
            if request.method == "GET":
                self._yesterday.setdefault(key, answer)
            return answer
        if key[0] != self.lie[0]:
            return await super().respond(request)
        self.told += 1
        return await LIES[self.lie[1]](self, request)

    async def truth(self, request: Request) -> Response:
        """Carry the request out and answer truly."""
        return await super().respond(_plain(request))

    async def tell_yesterday(self, request: Request) -> Response:
        """Answer a reading request as it was answered first; carry any other out."""
        key = (endpoint_of(request), request.path)
        return self._yesterday.get(key) or Response(200, b"", _HTML) if request.method == "GET" else await self.truth(request)  # fmt: skip

    async def tell_of_other(self, request: Request) -> Response:
        """Answer about another note."""
        first, *rest = request.segments
        moved = [self.other if one in self.document.notes else one for one in rest]
        if request.method != "GET":
            await self.truth(request)
            return await super().respond(
                Request("GET", ("etapi", "notes", self.other), {}, _plain(request).headers)
            )
        return await self.truth(replace(request, segments=(first, *moved)))

    async def cut(self, request: Request) -> Response:
        """Answer with the first half of the truth."""
        answer = await self.truth(request)
        return replace(answer, body=answer.body[: int(len(answer.body) * _CUT)])

    async def done_but(self, request: Request, answer: Response) -> Response:
        """Carry the request out, and answer something else."""
        await self.truth(request)
        return answer


def _plain(request: Request) -> Request:
    headers = {k: v for k, v in request.headers.items() if k.lower() != "accept-encoding"}
    return replace(request, headers=headers)


def _instead(*answer: object) -> Callable[[LyingTrilium, Request], object]:
    async def tell(_sim: LyingTrilium, _request: Request) -> Response:
        return Response(*answer)

    return tell


def _after(*answer: object) -> Callable[[LyingTrilium, Request], object]:
    async def tell(sim: LyingTrilium, request: Request) -> Response:
        return await sim.done_but(request, Response(*answer))

    return tell


LIES: dict[str, Callable] = {
    "no content, not forwarded": _instead(204, b"", _HTML),
    "an empty page, not forwarded": _instead(200, b"", _HTML),
    "a login page, not forwarded": _instead(200, PAGE, _HTML),
    "a login page behind a redirect": _instead(302, PAGE, _HTML, (("Location", "/login"),)),
    "an empty page": _after(200, b"", _HTML),
    "a login page": _after(200, PAGE, _HTML),
    "an empty list": _after(200, b"[]", _JSON),
    "an empty object": _after(200, b'{"results": []}', _JSON),
    "another note": LyingTrilium.tell_of_other,
    "yesterday": LyingTrilium.tell_yesterday,
    "the first half": LyingTrilium.cut,
    "bytes of another encoding": _after(200, b"\xff\xfe\x00x", "application/octet-stream"),
}
