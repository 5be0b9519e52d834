"""Review an audit in a browser: accept, reject or fix findings, and write the rows to a new file.

GET /?token=…        the page
GET /findings        the findings and the rows that they are about
POST /save           the decisions; writes the file

The last two require the token in the header `X-Token`. An edited row is written as edited. Otherwise each accepted
finding is fixed: its call is replaced or deleted, or else its row is deleted. All other rows stay unchanged.
"""

from __future__ import annotations

import asyncio
import copy
import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import msgspec
from aiohttp import web

from tunecheck import ConfigurationError
from tunecheck.datasets import Dataset, sidecar_path, sidecar_text
from tunecheck.plugins import JSON, dumps_line, loads, plural, raise_as, replacing, write_file
from tunecheck.report import check_token, refuse_other_hosts, serve_pages
from tunecheck_authoring._audit.checks import entry_name
from tunecheck_authoring._audit.dialogue import KINDS, AuditFinding, Replacement

_MOST_BYTES = 64 << 20
"""The largest request in bytes: the decisions contain each edited row."""
_ROOM = "tunecheck_authoring._audit"
_COMMAND = "datasets audit --review"

Remedy = Literal["replace the call", "leave out the call", "leave out the row"]


class Decisions(msgspec.Struct, forbid_unknown_fields=True):
    """The decisions: the numbers of accepted findings, and edited rows as JSON text by id."""

    accepted: list[int] = []
    edited: dict[str, str] = {}


class Review(msgspec.Struct):
    """The findings of a data set's audit, and the new file for its rows.

    `token` is in the page's address, so that other programs of this machine cannot read or save rows.
    """

    dataset: Dataset
    findings: Sequence[AuditFinding]
    out: Path
    token: str = msgspec.field(default_factory=lambda: secrets.token_urlsafe(24))
    _written: bool = False

    def __post_init__(self) -> None:
        """Refuse an output file that is not named `.jsonl`, or that exists already."""
        if self.out.suffix.lower() != ".jsonl":
            raise ConfigurationError(f"--out {self.out}: the name must end in .jsonl; correct it")
        for path in (self.out, sidecar_path(self.out)):
            if path.exists():
                raise ConfigurationError(f"{path} exists; choose another name with --out FILE")

    def described(self) -> dict[str, JSON]:
        """Return the findings and their rows for the page."""
        named = {finding.id for finding in self.findings}

        rows = {name: values for name, values in self._rows() if name in named}
        described: list[JSON] = [
            finding.as_json() | {"what": KINDS[finding.kind], "remedy": remedy(rows.get(finding.id, {}), finding)}
            for finding in self.findings
        ]
        return {"name": self.dataset.name, "out": str(self.out), "findings": described, "rows": dict(rows)}

    def save(self, decisions: Decisions) -> str:
        """Write the rows as decided, with a sidecar, and return a sentence with the numbers of rows.

        A review may save several times, but never overwrites a file that it did not write.

        Raises:
            ConfigurationError: An edited row is not a JSON object, several rows have the id of a decision, or the file
                exists or cannot be written.
        """
        edited = {name: _edit(name, text) for name, text in decisions.edited.items()}
        accepted: dict[str, list[AuditFinding]] = {}
        for number in decisions.accepted:
            if not 0 <= number < len(self.findings):
                raise ConfigurationError(f"the review has no finding {number}; reload the page")
            accepted.setdefault(self.findings[number].id, []).append(self.findings[number])

        names = Counter(name for name, _ in self._rows())
        # A decision needs one row, so rows that share its id are refused.
        for name in (each for each in (*accepted, *edited) if names[each] > 1):
            raise ConfigurationError(f"{names[name]:,} rows have the id {name}; give each its own id and audit again")

        # The review checked this at its start, but the file may have been made since then.
        if self.out.exists() and not self._written:
            raise ConfigurationError(f"{self.out} was created after the review began; move that file, and save again")

        kept = 0
        with raise_as(ConfigurationError, self.out, "cannot be written"):
            self.out.parent.mkdir(parents=True, exist_ok=True)
            with replacing(self.out) as temporary, temporary.open("wb") as file:
                for name, values in self._rows():
                    row = edited[name] if name in edited else apply_fixes(values, accepted.get(name, ()))
                    if row is not None:
                        kept += 1
                        file.write(dumps_line(row))

            words = f"{self.dataset.name} with the corrections of `{_COMMAND}`."
            write_file(sidecar_path(self.out), sidecar_text(self.dataset.defaults, description=words).encode())

        self._written = True
        return f"written {self.out}: {plural(kept, 'row')}, {names.total() - kept:,} left out"

    def _rows(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the name of each row (its id, else its number) and a copy of its columns."""
        for number, row in enumerate(self.dataset.rows(), 1):
            yield entry_name(row.values, number), dict(row.values)


def remedy(row: dict[str, Any], finding: AuditFinding) -> Remedy:
    """Return how accepting a finding changes its row."""
    if finding.replacement is None or _calls_of_turn(row, finding.replacement) is None:
        return "leave out the row"
    return "leave out the call" if finding.replacement.new is None else "replace the call"


def apply_fixes(row: dict[str, Any], accepted: Sequence[AuditFinding]) -> dict[str, Any] | None:
    """Return a copy of the row with these findings fixed, or None to leave the row out.

    A finding leaves the row out if it has no replacement, or if the row no longer has its call.
    """
    # The caller's row stays as it is.
    row = copy.deepcopy(row)
    for finding in accepted:
        replacement = finding.replacement
        calls = None if replacement is None else _calls_of_turn(row, replacement)
        if replacement is None or calls is None:
            return None

        at = calls.index(replacement.old)
        calls[at : at + 1] = [] if replacement.new is None else [replacement.new]
    return row


def _calls_of_turn(row: dict[str, Any], replacement: Replacement) -> list[JSON] | None:
    """Return the calls of the replacement's turn in the ground truth; None if they lack the call to replace."""
    truth = row.get("ground_truth")
    calls = truth[replacement.turn] if isinstance(truth, list) and replacement.turn < len(truth) else None
    return calls if isinstance(calls, list) and replacement.old in calls else None


def _edit(name: str, text: str) -> dict[str, JSON]:
    """Return an edited row from its JSON text, or raise ConfigurationError with the row's id."""
    try:
        row = loads(text)
    except ValueError as error:
        raise ConfigurationError(f"the row {name}, as edited in the review, is not JSON: {error}; correct it") from None
    if not isinstance(row, dict):
        raise ConfigurationError(f"the row {name}, as edited in the review, must be a JSON object, not {row!r:.60}")
    return row


def make_app(review: Review) -> web.Application:
    """Return the review as an aiohttp application: the page, its findings, and the saving of decisions.

    Each request needs the review's token and must come from this machine.
    """

    async def page(request: web.Request) -> web.Response:
        """Return the page. Its address contains the token."""
        check_token(request.query.get("token", ""), review.token, _COMMAND)

        nonce = secrets.token_urlsafe(18)
        text = files(_ROOM).joinpath("review.html").read_text("utf-8")
        # The page contains texts of the data set: no script, style or connection but its own is allowed.
        policy = f"default-src 'none'; connect-src 'self'; style-src 'nonce-{nonce}'; script-src 'nonce-{nonce}'"
        headers = {"Content-Security-Policy": f"{policy}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"}
        return web.Response(text=text.replace("NONCE", nonce), content_type="text/html", headers=headers)

    async def findings(request: web.Request) -> web.Response:
        """Return the findings and their rows as JSON."""
        check_token(request.headers.get("X-Token", ""), review.token, _COMMAND)
        return web.json_response(body=dumps_line(await asyncio.to_thread(review.described)))

    async def save(request: web.Request) -> web.Response:
        """Write the decided rows and return a sentence with their numbers."""
        check_token(request.headers.get("X-Token", ""), review.token, _COMMAND)

        try:
            decisions = msgspec.json.decode(await request.read(), type=Decisions)
        except msgspec.DecodeError as error:
            raise web.HTTPBadRequest(text=str(error)) from None
        return web.Response(text=await asyncio.to_thread(review.save, decisions))

    app = web.Application(middlewares=[refuse_other_hosts], client_max_size=_MOST_BYTES)
    app.add_routes([web.get("/", page), web.get("/findings", findings), web.post("/save", save)])
    return app


def serve_review(review: Review, port: int, on_ready: Callable[[str], None]) -> None:
    """Serve the review on this machine until the process is stopped; `on_ready` gets its address."""
    asyncio.run(serve_pages(make_app(review), port, on_ready, review.token))
