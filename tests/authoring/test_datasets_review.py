"""`datasets audit --review`: only a decision in the browser is written, and to a new file."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import pytest
from tests.cli_parts import write_lines

from tunecheck import ConfigurationError
from tunecheck.datasets import open_dataset
from tunecheck.report import running
from tunecheck_authoring._audit.dialogue import Replacement, found
from tunecheck_authoring._audit.review import Decisions, Review, apply_fixes, make_app, remedy

Answer = TypeVar("Answer")
OLD, NEW = "send(text='We are lat')", "send(text='We are late')"
REPLACED = found("a", "nearly_quoted", "nearly", 0, fix=NEW, replacement=Replacement(0, OLD, NEW))
DROPPED = found("a", "superfluous_call", "twice", 0, replacement=Replacement(0, "look()", None))
REPEATED = found("b", "near_duplicate", "a says <script>alert(1)</script> the same", fix="leave the row out")


def _row(name: str) -> dict[str, Any]:
    turns = [[{"role": "user", "content": "Send it."}]]
    return {"id": name, "turns": turns, "ground_truth": [["look()", OLD]]}


@pytest.fixture
def review(tmp_path: Path) -> Review:
    write_lines(tmp_path / "rows.jsonl", [_row("a"), _row("b"), _row("c")])
    dataset = open_dataset(tmp_path / "rows.jsonl", number_ids=True)
    return Review(dataset, [REPLACED, DROPPED, REPEATED], tmp_path / "new.jsonl")


def _written(review: Review) -> dict[str, Any]:
    return {row["id"]: row for row in map(json.loads, review.out.read_text().splitlines())}


def test_what_is_accepted_is_made_good_and_all_else_stays(review: Review) -> None:
    said = review.save(Decisions(accepted=[0, 1, 2]))
    assert said == f"written {review.out}: 2 rows, 1 left out"
    assert {name: row["ground_truth"] for name, row in _written(review).items()} == {
        "a": [[NEW]],
        "c": [["look()", OLD]],
    }


def test_the_data_set_itself_stays_as_it_is(review: Review, tmp_path: Path) -> None:
    before = (tmp_path / "rows.jsonl").read_bytes()
    review.save(Decisions(accepted=[0, 1, 2]))
    assert (tmp_path / "rows.jsonl").read_bytes() == before


def test_an_edited_row_is_written_as_edited(review: Review) -> None:
    review.save(Decisions(accepted=[2], edited={"b": '{"id": "b", "mine": true}'}))
    assert _written(review)["b"] == {"id": "b", "mine": True}


def test_a_decision_that_is_taken_back_is_taken_back_in_the_file(review: Review) -> None:
    review.save(Decisions(accepted=[2]))
    review.save(Decisions())
    assert set(_written(review)) == {"a", "b", "c"}


@pytest.mark.parametrize("text", ["{", "[1]"], ids=["not JSON", "no object"])
def test_what_is_no_row_is_refused_and_nothing_is_written(review: Review, text: str) -> None:
    with pytest.raises(ConfigurationError, match="row b"):
        review.save(Decisions(edited={"b": text}))
    assert not review.out.exists()


def test_what_is_decided_of_one_row_happens_to_no_other_of_the_same_id(tmp_path: Path) -> None:
    write_lines(tmp_path / "rows.jsonl", [_row("b"), _row("b"), _row("c")])
    review = Review(open_dataset(tmp_path / "rows.jsonl", number_ids=True), [REPEATED], tmp_path / "new.jsonl")
    for decided in (Decisions(accepted=[0]), Decisions(edited={"b": "{}"})):
        with pytest.raises(ConfigurationError, match="2 rows have the id b"):
            review.save(decided)
    assert not review.out.exists()


def test_a_sidecar_that_is_there_is_never_written_over(tmp_path: Path, review: Review) -> None:
    (tmp_path / "own.yaml").write_text("primary: mine\n")
    with pytest.raises(ConfigurationError, match=r"own\.yaml exists"):
        Review(review.dataset, [], tmp_path / "own.jsonl")


def test_a_file_that_is_there_is_never_written_over(review: Review) -> None:
    review.out.write_text("mine")
    with pytest.raises(ConfigurationError, match="was created after"):
        review.save(Decisions())
    with pytest.raises(ConfigurationError, match="exists"):
        Review(review.dataset, [], review.out)


def test_a_call_that_is_written_otherwise_in_the_row_cannot_be_replaced(review: Review) -> None:
    row = _row("a") | {"ground_truth": [["send(text = 'We are lat')"]]}
    assert apply_fixes(row, [REPLACED]) is None


def test_only_who_has_the_token_and_names_this_machine_is_answered(review: Review) -> None:
    async def ask(session: aiohttp.ClientSession, url: str) -> list[int]:
        right = {"X-Token": review.token}
        return [
            await _status(session.get(f"{url}/")),
            await _status(session.get(f"{url}/findings", headers={"X-Token": "wrong"})),
            await _status(session.post(f"{url}/save", json={"accepted": []})),
            await _status(session.get(f"{url}/findings", headers={**right, "Host": "elsewhere.example"})),
            await _status(
                session.post(f"{url}/save", json={}, headers={**right, "Origin": "https://elsewhere.example"})
            ),
            await _status(session.post(f"{url}/save", data=b"{", headers=right)),
            await _status(session.get(f"{url}/?token={review.token}")),
            await _status(session.get(f"{url}/findings", headers=right)),
        ]

    assert _served(review, ask) == [403, 403, 403, 403, 403, 400, 200, 200]
    assert not review.out.exists()


def test_a_token_that_is_no_text_is_a_wrong_token(review: Review) -> None:
    async def ask(_: aiohttp.ClientSession, url: str) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        writer.write(b"GET /findings HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Token: \xff\r\nConnection: close\r\n\r\n")
        reply = await reader.read()
        writer.close()
        return reply

    assert _served(review, ask).startswith(b"HTTP/1.1 403 ")


def test_the_page_runs_its_own_script_only_and_holds_nothing_of_the_data(review: Review) -> None:
    async def ask(session: aiohttp.ClientSession, url: str) -> tuple[str, str]:
        async with session.get(f"{url}/?token={review.token}") as reply:
            return reply.headers["Content-Security-Policy"], await reply.text()

    policy, page = _served(review, ask)
    nonce = policy.partition("script-src 'nonce-")[2].partition("'")[0]
    assert f'<script nonce="{nonce}">' in page
    assert "alert(1)" not in page
    assert "default-src 'none'" in policy


def test_accepting_does_what_can_be_done(review: Review) -> None:
    assert [remedy(_row(each.id), each) for each in review.findings] == [
        "replace the call",
        "leave out the call",
        "leave out the row",
    ]


async def _status(request: Any) -> int:
    async with request as reply:
        return int(reply.status)


def _served(review: Review, ask: Callable[[aiohttp.ClientSession, str], Awaitable[Answer]]) -> Answer:
    async def serve() -> Answer:
        async with running(make_app(review)) as url, aiohttp.ClientSession() as session:
            return await ask(session, url)

    return asyncio.run(serve())
