"""A thousand calls over mixed faults: each ends as an answer or as a typed error, none is lost, none is doubled."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from email.utils import formatdate

from tests.endpoint_parts import EagerClock, azure_ml, user
from tests.fault_server import (
    HANG,
    RESET,
    TRICKLE,
    FaultServer,
    Request,
    Step,
    answer,
    busy,
    failing,
    filtered,
    page,
    raw,
    truncated,
)

from tunecheck import ContentFilterError, EndpointError, ReplyError
from tunecheck.endpoints import Completion

CALLS = 1000


def _faults(request: Request) -> list[Step]:
    value = {"result": f"echo {request.key}"}
    return [
        busy(),
        busy("3"),
        busy(formatdate(1_700_000_005, usegmt=True)),
        failing(500),
        failing(503),
        truncated(value),
        raw(b'{"result": tru'),
        raw(b"\xff\xfe"),
        RESET,
        Step(silent=True, then="close"),
        Step(200, {}, b'{"resu', length=600, then="reset"),
        page(),
        filtered(),
        failing(400, "bad request"),
    ]


def plan(request: Request, attempt: int) -> Step:
    """Each key has its own luck: a fault in half the attempts, or never an answer at all. Ten hang or trickle."""
    chance = random.Random(f"{request.key} {attempt}")
    number = int(request.key, 16)
    doomed = number % 50 == 0
    if attempt == 0 and number % 200 in (7, 8):
        return HANG if number % 200 == 7 else TRICKLE
    *passing, page_, filtered_, bad_ = _faults(request)
    if doomed:
        return chance.choice([page_, filtered_, bad_, busy(), failing(500)])
    if chance.random() < 0.5:
        return chance.choice(passing)
    return answer({"result": f"echo {request.key}", "usage": {"prompt_tokens": 1, "completion_tokens": 1}})


async def test_a_thousand_calls_over_mixed_faults_are_all_accounted_for() -> None:
    keys = [f"{number:032x}" for number in range(CALLS)]
    with FaultServer(plan) as server:
        endpoint = azure_ml(
            server.url, clock=EagerClock(), response="result", timeout_s=4, retries=6, limits={"concurrency": 60}
        )
        outcomes = await asyncio.gather(*(endpoint.complete(user(key, key)) for key in keys), return_exceptions=True)
        await endpoint.close()

    answered = {key: done for key, done in zip(keys, outcomes, strict=True) if isinstance(done, Completion)}
    failed = {key: error for key, error in zip(keys, outcomes, strict=True) if isinstance(error, EndpointError)}
    assert len(answered) + len(failed) == CALLS
    assert all(done.text == f"echo {key}" for key, done in answered.items())
    assert all(str(error).isprintable() for error in failed.values())

    # Not lost: every key arrived. Not doubled: a key that was answered was never sent again.
    assert set(server.seen) == set(keys)
    assert dict(server.answered) == dict.fromkeys(answered, 1)

    kinds = Counter(type(error) for error in failed.values())
    assert len(answered) > CALLS * 0.7
    assert kinds[ContentFilterError] > 0
    assert kinds[ReplyError] > 0


async def test_what_is_answered_at_first_is_sent_once() -> None:
    with FaultServer(lambda request, _: answer({"result": request.key})) as server:
        endpoint = azure_ml(server.url, response="result", limits={"concurrency": 50})
        done = await asyncio.gather(*(endpoint.complete(user("a", str(n))) for n in range(300)))
        await endpoint.close()
    assert [one.text for one in done] == [str(n) for n in range(300)]
    assert set(server.seen.values()) == {1}
