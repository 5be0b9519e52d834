"""Statements of run.json on a run: who judged and answered, and what of it holds in a later run."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.pipeline_parts import length

from tunecheck import BleuScoreEvaluator, ConfigurationError
from tunecheck.pipeline import bind_evaluator
from tunecheck.plugins import EvaluatorEntry, RunFile
from tunecheck.runs import _manifest as manifest, describe_evaluators, resume_manifest, reusable, versions
from tunecheck.runs._manifest import Reusable

ENDPOINT: dict[str, Any] = {"kind": "openai", "parameters": {"temperature": 0, "top_p": 1}, "fingerprint": "a"}


def of(target: dict[str, Any] | None = None, **fingerprints: str | None) -> RunFile:
    """A run that this target answered, judged by evaluators of these fingerprints."""
    entries = {name: EvaluatorEntry(type="judges.E", fingerprint=known) for name, known in fingerprints.items()}
    return RunFile(status="failed", target=target, evaluators=entries)


def test_an_evaluator_is_called_as_its_users_import_it() -> None:
    bound = [bind_evaluator("own", length, {}), bind_evaluator("bleu", BleuScoreEvaluator(), {})]
    entries = describe_evaluators(bound)
    assert (entries["own"].type, entries["bleu"].type) == (
        "tests.pipeline_parts.length",
        "tunecheck.BleuScoreEvaluator",
    )


def test_a_metric_s_range_is_that_which_it_declares() -> None:
    (score,) = describe_evaluators([bind_evaluator("bleu", BleuScoreEvaluator(), {})])["bleu"].metrics
    assert score.range == [0.0, 1.0]


def test_versions_go_on_after_a_package_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "_SHOWN_VERSIONS", ("a package that nobody has", "msgspec"))
    assert versions().keys() == {"python", "msgspec"}


@pytest.mark.parametrize(
    ("before", "now", "held"),
    [
        (of(), of(), Reusable(frozenset(), answers=False)),
        (of(ENDPOINT), of(None), Reusable(frozenset(), answers=False)),
        (of(ENDPOINT), of(ENDPOINT), Reusable(frozenset(), answers=True)),
        (of(ENDPOINT), of(ENDPOINT | {"fingerprint": "b"}), Reusable(frozenset(), answers=False)),
        (of(ENDPOINT), of(ENDPOINT | {"fingerprint": None}), Reusable(frozenset(), answers=False)),
        (of(e="1", f="1", g=None), of(e="1", f="2", g=None, h="1"), Reusable(frozenset("e"), answers=False)),
    ],
)
def test_what_has_not_changed_may_be_reused(before: RunFile, now: RunFile, held: Reusable) -> None:
    assert reusable(before, now) == held


def test_answers_of_a_target_without_a_fingerprint_are_reused_with_a_note_where_its_settings_are_the_same() -> None:
    before = of({"kind": "own", "size": 1, "fingerprint": None})
    same = reusable(before, before)
    assert (same.answers, [note[:50] for note in same.notes]) == (
        True,
        ["answers were reused although the target's code has"],
    )
    assert reusable(before, of({"kind": "own", "size": 2, "fingerprint": None})) == Reusable(frozenset(), answers=False)


def test_a_run_that_goes_on_is_written_in_the_format_of_today() -> None:
    before = replace(of(ENDPOINT, e="1"), format_version=0, name="mine")
    now = of(ENDPOINT, e="1")
    assert resume_manifest("r", before, now, reuses_answers=True) == replace(
        now, name="mine", status="running", format_version=now.format_version
    )


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (
            of(ENDPOINT | {"parameters": {"temperature": 1, "top_p": 1}, "fingerprint": "b"}, e="1"),
            r"begun: the target's parameters\.temperature was 0, is 1\. Undo that",
        ),
        (of(ENDPOINT, e="2"), r"begun: evaluator 'e' has other code\. Undo that"),
        (of(None, e="1", f="1"), r"begun: it had a target, now it has none; evaluator 'f' is new\. Undo that"),
    ],
)
def test_what_keeps_a_run_from_going_on_is_said_part_by_part(now: RunFile, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        resume_manifest("r", of(ENDPOINT, e="1"), now, reuses_answers=True)
