"""The web application: a battle, the vote on it, what it was, and the board. Everything works without a script."""

import re
import secrets
import time
from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from sqlalchemy.exc import SQLAlchemyError
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from llm_anatomy.arena.battles import WINNERS, Battles
from llm_anatomy.arena.board import Row, board
from llm_anatomy.arena.outputs import Outputs
from llm_anatomy.arena.votes import Vote, Votes

HERE = Path(__file__).parent
COOKIE, COOKIE_SECONDS = "arena_voter", 365 * 24 * 3600
MAX_BODY = 1000
"""Bytes of a vote: it needs about 100."""

BOARD_SECONDS = 1.0
"""A board that is younger than this is shown again rather than computed again."""

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""What every response says: nothing comes from elsewhere, and no other page shows this one inside itself."""


class Standing(NamedTuple):
    """The board at a moment.

    Source: GT-50.

    >>> Standing(rows=[], n_votes=0, n_voters=0).n_votes
    0
    """

    rows: list[Row]
    n_votes: int
    n_voters: int


def application(outputs: Outputs, votes: Votes, question: str = "Which text is better?") -> Starlette:
    """Make the web application of an arena.

    Args:
        outputs: what the models have written.
        votes: the database.
        question: what voters are asked.

    Source: Chiang et al. (2024), "Chatbot Arena", section 3; IITD-01.

    >>> import tempfile
    >>> outputs = Outputs({"Once": {"small": "upon a time", "large": "there was a hare"}})
    >>> with tempfile.TemporaryDirectory() as folder, Votes(Path(folder, "arena.sqlite")) as votes:
    ...     [route.path for route in application(outputs, votes).routes]
    ['/', '/vote', '/battles/{number:int}', '/board', '/health', '/static']
    """
    pages = _Pages(outputs, votes, question)
    routes = [
        Route("/", pages.battle),
        Route("/vote", pages.vote, methods=["POST"]),
        Route("/battles/{number:int}", pages.result),
        Route("/board", pages.board),
        Route("/health", lambda request: PlainTextResponse("ok")),
        Mount("/static", StaticFiles(directory=HERE / "static")),
    ]
    made = Starlette(
        routes=routes, exception_handlers={HTTPException: pages.refusal, SQLAlchemyError: pages.database_error}
    )
    made.add_middleware(_Headers)
    return made


class _Pages:
    def __init__(self, outputs: Outputs, votes: Votes, question: str):
        self.outputs, self.votes = outputs, votes
        self.battles = Battles(outputs, votes.secret)
        self.templates = Environment(
            loader=FileSystemLoader(HERE / "templates"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
        )
        self.templates.filters["breakable"] = _breakable
        self.templates.globals |= {"question": question, "WINNERS": WINNERS}
        self._standing, self._computed, self._lock = Standing([], 0, 0), -BOARD_SECONDS, Lock()

    def battle(self, request: Request) -> Response:
        """The first battle on which this voter has not voted."""
        voter = self._voter(request)
        known = voter is not None
        voter = voter or secrets.token_hex(8)
        number = self.votes.next_battle(voter) if known else 0
        battle = self.battles.of(voter, number)
        if battle is None:
            return self._page("finished.html", request, n_battles=number)
        token = self.battles.token(voter, number)
        response = self._page("battle.html", request, battle=battle, number=number, token=token)
        if not known:
            response.set_cookie(
                COOKIE,
                f"{voter}.{self.battles.sign('voter', voter)}",
                max_age=COOKIE_SECONDS,
                httponly=True,
                samesite="lax",
                secure=request.url.scheme == "https",
            )
        return response

    async def vote(self, request: Request) -> Response:
        body = bytearray()
        try:
            async for chunk in request.stream():
                body += chunk
                if len(body) > MAX_BODY:
                    raise HTTPException(413, "That was too much for a vote.")
        except ClientDisconnect:
            return Response(status_code=400)
        _check_origin(request)
        try:
            form = dict(parse_qsl(body.decode("ascii"), max_num_fields=10))
        except ValueError:
            raise HTTPException(400, "That was no vote.") from None
        return await run_in_threadpool(self._record, request, form)

    def _record(self, request: Request, form: Mapping[str, str]) -> Response:
        voter = self._voter(request)
        if voter is None:
            raise HTTPException(
                403, "Your vote was not counted, since your browser did not keep the arena's cookie. Please allow it."
            )
        winner, number, token = (form.get(name, "") for name in ("winner", "battle", "token"))
        if winner not in WINNERS or not re.fullmatch("[0-9]{1,9}", number):
            raise HTTPException(400, "That was no vote.")
        if not secrets.compare_digest(self.battles.token(voter, int(number)).encode(), token.encode()):
            raise HTTPException(409, "The outputs have changed since your page was made, so your vote was not counted.")
        battle = self.battles.of(voter, int(number))
        if battle is None:  # not possible with a token of ours
            raise HTTPException(400, "That was no vote.")
        is_new = self.votes.record(Vote.on(battle, winner, voter=voter, number=int(number)))
        return RedirectResponse(f"/battles/{int(number)}" + ("" if is_new else "?again"), status_code=303)

    def result(self, request: Request) -> Response:
        """What a battle was that this voter has decided."""
        voter, number = self._voter(request), request.path_params["number"]
        vote = self.votes.vote(voter, number) if voter and number < 2**31 else None
        if vote is None:
            raise HTTPException(404, "You have not voted on this battle.")
        texts = self.outputs.by_prompt.get(vote.prompt, {})
        sides = [
            {"letter": "A", "model": vote.model_a, "text": texts.get(vote.model_a), "won": vote.winner == "a"},
            {"letter": "B", "model": vote.model_b, "text": texts.get(vote.model_b), "won": vote.winner == "b"},
        ]
        again = "again" in request.query_params
        return self._page(
            "result.html", request, vote=vote, sides=sides, again=again, n_votes=self._standing_now().n_votes
        )

    def board(self, request: Request) -> Response:
        standing = self._standing_now()
        ends = [end for row in standing.rows for end in (row.low, row.high) if end is not None]
        low, high = (min(ends, default=0) // 50 * 50, -(-max(ends, default=0) // 50) * 50)
        address = str(request.url_for("battle"))
        return self._page("board.html", request, standing=standing, low=low, high=max(high, low + 50), address=address)

    def refusal(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        said = {404: "There is no such page.", 405: "This page takes no such request."}
        is_ours = error.detail.endswith(".")
        return self._page(
            "refusal.html",
            request,
            error.status_code,
            said=error.detail if is_ours else said.get(error.status_code, error.detail),
        )

    def database_error(self, request: Request, error: Exception) -> Response:
        return self._page(
            "refusal.html", request, 503, said="The database did not answer. Please try again in a moment."
        )

    def _standing_now(self) -> Standing:
        with self._lock:
            if time.monotonic() - self._computed >= BOARD_SECONDS:
                rows = board(self.votes.counts(), self.outputs.models)
                self._standing = Standing(rows, self.votes.n_votes(), self.votes.n_voters())
                self._computed = time.monotonic()
            return self._standing

    def _voter(self, request: Request) -> str | None:
        """Who asks, by a cookie that we have signed."""
        voter, _, signature = request.cookies.get(COOKIE, "").partition(".")
        if not re.fullmatch("[0-9a-f]{16}", voter):
            return None
        is_ours = secrets.compare_digest(self.battles.sign("voter", voter).encode(), signature.encode())
        return voter if is_ours else None

    def _page(self, name: str, request: Request, status: int = 200, **values: Any) -> HTMLResponse:
        text = self.templates.get_template(name).render(path=request.url.path, **values)
        return HTMLResponse(text, status, headers={"Cache-Control": "no-store"})


def _breakable(name: str) -> Markup:
    """A name that may go on in the next line after a sign."""
    return Markup("<wbr>").join(escape(part) for part in re.split(r"(?<=[_@/:-])(?=\w)", name))


def _check_origin(request: Request) -> None:
    """Refuse what another site sends. Its requests have no cookie of ours either; this is a second reason."""
    origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site", "same-origin")
    if site not in ("same-origin", "none") or (origin and urlsplit(origin).netloc != request.headers.get("host")):
        raise HTTPException(403, "Your vote was not counted, since it came from another site.")


class _Headers:
    """Adds the same headers to every response."""

    def __init__(self, app: ASGIApp):
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        await self.app(scope, receive, send_with_headers)
