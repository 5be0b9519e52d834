"""The parts of `run.json`, which results of an earlier run stay valid, and checks that a run's files are complete.

A fingerprint is a hash of code and settings that decide answers or verdicts; None if there is no reliable hash.

**Reuse** (`--reuse`, `reusable`) starts a new run. It takes from the earlier run:

* the verdicts of each evaluator with the same fingerprint as now; none of an evaluator without a fingerprint
* the answers, if the target has the same fingerprint as now; if neither target has one, if their settings are equal

**Resume** (`--resume`, `resume_manifest`) finishes a run in its own folder, so nothing that its rows depend on may
change. In the order of the checks (`_changes`):

1. the data: its SHA-256, then its number of rows
2. the target's fingerprint
3. the evaluators: their names and fingerprints
4. the mapping of the target and of the current evaluators
5. `group_by`

**Verification** (`tunecheck runs RUN --verify`, `verify`) compares a run's files with the sizes and SHA-256 digests in
`run.json`, with the digest of `run.json` itself, and with the answers in the journal.
"""

from __future__ import annotations

import contextlib
import platform
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import msgspec
from msgspec import UNSET, structs

from tunecheck._disk import open_regular, sha256_of
from tunecheck._errors import ConfigurationError, RunError, raise_as
from tunecheck._files import EvaluatorEntry, RunFile
from tunecheck._fingerprints import stable_arguments
from tunecheck._json import JSON, content_hash, text_or_json
from tunecheck._messages import cut_apart, plural
from tunecheck._records import WholeRecords
from tunecheck._targets import Target
from tunecheck._version import is_shipped
from tunecheck.endpoints._base import settings_of_answers
from tunecheck.endpoints._masking import ALL_SECRETS, storable_settings
from tunecheck.pipeline._mapping import parse_mapping
from tunecheck.pipeline._scoring import BoundEvaluator, Mapped, Reference, mapped_reader
from tunecheck.runs._store import Run, damage_error, digest_of

if TYPE_CHECKING:
    from tunecheck.pipeline._journal_reader import JournalReader

_SHOWN_VERSIONS = ("tunecheck", "nltk", "rapidfuzz", "jsonschema-rs", "aiohttp", "msgspec")
"""Packages whose versions `run.json` records."""


def versions() -> dict[str, str]:
    """Return the versions of Python and of the installed packages that results may depend on."""
    known = {"python": platform.python_version()}
    for package in _SHOWN_VERSIONS:
        with contextlib.suppress(PackageNotFoundError):
            known[package] = version(package)
    return known


def describe_evaluators(evaluators: Sequence[BoundEvaluator]) -> dict[str, EvaluatorEntry]:
    """Return each evaluator's class or function, arguments, fingerprint and declared metrics.

    A judge has an identity by which its calibration is found. A built-in judge is identified by its prompt, model and
    settings, not by its code: calibrations cost money, so they stay valid in another version with the same prompt.
    Other judges are identified by their code as well.
    """
    entries = {}
    for evaluator in evaluators:
        function = evaluator.function
        # A function or class has a qualified name; an instance is described by its class and its arguments.
        kind = function if hasattr(function, "__qualname__") else type(function)
        arguments = kept_settings(stable_arguments(function) if kind is not function else {})

        judge = None
        if getattr(function, "judged", False) is True:
            is_built_in = is_shipped(getattr(kind, "__module__", ""))
            judge = content_hash([_public_name(kind), arguments]) if is_built_in else evaluator.fingerprint

        entries[evaluator.name] = EvaluatorEntry(
            type=_public_name(kind),
            arguments=arguments,
            fingerprint=evaluator.fingerprint,
            judge=judge,
            primary=evaluator.primary or None,
            metrics=[*evaluator.metrics],
        )
    return entries


def _public_name(kind: object) -> str:
    """Return the name under which users import a class or function, with its package or module.

    Files hold no internal module names of Tunecheck: a class of its public API is named
    `tunecheck.RougeScoreEvaluator`, although an internal module defines it. All others have the name of their module.
    """
    name = str(getattr(kind, "__qualname__", kind))
    module = str(getattr(kind, "__module__", ""))
    package = module.partition(".")[0]

    is_public = is_shipped(package) and getattr(sys.modules[package], name, None) is kind
    return f"{package if is_public else module}.{name}"


def describe_target(target: Target | None) -> dict[str, JSON] | None:
    """Return the target's settings, its fingerprint, and whether it is simulated; None without a target."""
    if target is None:
        return None
    return {**kept_settings(target.describe()), "fingerprint": target.fingerprint(), "simulated": target.simulated}


def kept_settings(settings: Mapping[str, JSON] | None) -> dict[str, JSON]:
    """Return settings with masked secrets: values with a secret's name, and credentials in addresses."""
    return {name: storable_settings(ALL_SECRETS.answer(value), name) for name, value in (settings or {}).items()}


def describe_mapping(mapping: Mapping[str, Mapping[str, Mapped]]) -> dict[str, dict[str, JSON]]:
    """Return the mapping of each evaluator for the manifest, in the format that users write."""
    return {
        name: {key: mapped.text if isinstance(mapped, Reference) else mapped.value for key, mapped in entries.items()}
        for name, entries in mapping.items()
    }


class Reusable(msgspec.Struct, frozen=True):
    """The results in an earlier run's journal that are still valid: the verdicts of `evaluators`, and `answers`."""

    evaluators: frozenset[str]
    answers: bool
    notes: tuple[str, ...] = ()


def reusable(before: RunFile, now: RunFile) -> Reusable:
    """Return which results of the earlier run `before` are valid in the run `now`.

    An evaluator's verdicts are valid if its fingerprint is known and still the same. The answers are valid if the
    target's fingerprint is the same; if neither run has one, if the target's settings are equal.
    """
    common = before.evaluators.keys() & now.evaluators.keys()
    fingerprints = {name: (before.evaluators[name].fingerprint, now.evaluators[name].fingerprint) for name in common}
    evaluators = frozenset(name for name, (old, new) in fingerprints.items() if old is not None and old == new)

    old, new = before.target, now.target
    if old is None or new is None:
        return Reusable(evaluators, answers=False)

    if old.get("fingerprint") is not None or new.get("fingerprint") is not None:
        return Reusable(evaluators, old.get("fingerprint") == new.get("fingerprint"))

    # Equal settings say nothing about a function's code, so the user gets a note.
    note = "answers were reused, but Tunecheck cannot tell whether the target's code is the same: check it"
    same = settings_of_answers(old) == settings_of_answers(new)
    return Reusable(evaluators, same, (note,) if same else ())


def resume_manifest(run_id: str, before: RunFile, now: RunFile, target: Target | None) -> RunFile:
    """Return the manifest of a run that is resumed in its own folder: `before`, with the status running.

    If the target's `evaluators_may_change`, evaluators of the same names replace the old ones.

    Raises:
        ConfigurationError: the resumed run would not be the same; the message names each changed part.
    """
    if target is not None and target.evaluators_may_change and before.evaluators.keys() == now.evaluators.keys():
        before = structs.replace(before, evaluators=now.evaluators, command=now.command or before.command)

    changed = _changes(before, now)
    if changed:
        reuses = target is None or target.answers_can_be_reused
        new = f"a new run that reuses unchanged results: --reuse {run_id}" if reuses else "a new run"
        changes = "; ".join(changed)
        raise ConfigurationError(f"run {run_id} cannot be resumed, because {changes}: undo the change, or start {new}")

    return structs.replace(before, format_version=now.format_version, status="running")


def _changes(before: RunFile, now: RunFile) -> list[str]:
    """Return, in words, each change because of which a run cannot be resumed in its folder; empty if there is none.

    For example `the data val.jsonl has changed` and `evaluator 'match' has other code`.
    """
    data, new_data = before.dataset, now.dataset
    changes = []
    if data.sha256 != new_data.sha256:
        changes.append(f"the data {data.path or data.name} has changed")
    elif data.rows != new_data.rows:
        changes.append(f"the data had {data.rows} rows, now {new_data.rows} (--limit)")

    changes += _changed_target(before.target or {}, now.target or {})
    changes += _changed_evaluators(before.evaluators, now.evaluators)

    # A missing evaluator is listed already, so its mapping is not.
    for name in sorted({*before.mapping, *now.mapping}):
        old, new = before.mapping.get(name), now.mapping.get(name)
        if old != new and (name in now.evaluators or name == "target"):
            changes.append(f"the mapping of {name!r} changed from {old} to {new}")

    if before.group_by != now.group_by:
        changes.append(f"group_by changed from {before.group_by} to {now.group_by}")

    return changes


def _changed_target(old: Mapping[str, JSON], new: Mapping[str, JSON]) -> list[str]:
    """Return in words what has changed in the target; an empty list if its fingerprint is the same."""
    if bool(old) != bool(new):
        return ["the run had a target, now it has none" if old else "the run had no target, now it has one"]

    if old.get("fingerprint") == new.get("fingerprint"):
        return []

    # The fingerprints differ here: the settings say what has changed.
    was, now = ({**settings_of_answers(target), "fingerprint": None} for target in (old, new))
    changed = [f"the target's {name} changed from {a} to {b}" for name, a, b in changed_settings(was, now)]
    return changed or ["the target's code has changed"]


def changed_settings(
    old: Mapping[str, JSON], new: Mapping[str, JSON], prefix: str = ""
) -> Iterator[tuple[str, str, str]]:
    """Yield each changed setting: its dotted name, its old and its new value as texts.

    Names begin with `prefix`, the dotted name of both mappings with a dot at its end; it is empty at the top.

    For example `("parameters.temperature", "0", "1")`, or `("judge", "not set", "big-model")`. Long values are cut so
    that their difference shows.
    """
    for key in {**old, **new}:
        was, now = old.get(key), new.get(key)
        if was != now and isinstance(was, dict) and isinstance(now, dict):
            yield from changed_settings(was, now, f"{prefix}{key}.")
        elif was != now:
            before, after = (text_or_json(side[key]) if key in side else "not set" for side in (old, new))
            yield f"{prefix}{key}", *cut_apart(before, after)


def _changed_evaluators(old: Mapping[str, EvaluatorEntry], new: Mapping[str, EvaluatorEntry]) -> list[str]:
    """Return in words which evaluators were added, removed or changed."""
    changes = [f"evaluator {name!r} is missing now" for name in old if name not in new]
    for name, entry in new.items():
        if name not in old:
            changes.append(f"evaluator {name!r} is new")
        elif entry.fingerprint != old[name].fingerprint:
            settings = changed_settings(old[name].arguments or {}, entry.arguments or {})
            changed = [f"{key} {was} → {now}" for key, was, now in settings]
            how = f"has other arguments ({', '.join(changed)})" if changed else "has other code"
            changes.append(f"evaluator {name!r} {how}")
    return changes


# -- values of evaluators' parameters in a run's rows, by the run's column mapping

ValueReader: TypeAlias = Callable[[Mapping[str, JSON], Mapping[str, JSON]], JSON]
"""A function from a row's data columns and target columns to a value."""


def value_reader(manifest: RunFile, parameter: str, columns: Sequence[str]) -> ValueReader:
    """Return a function that finds a parameter's value in a row: by the run's mapping, else in one of these columns.

    Without a mapping, the value is that of the first of `columns` that the row has. If the target and the data both
    have it, the target's counts. The value is None if the row has none of the columns.
    """
    layers: dict[str, Mapping[str, Mapped]] = {"default": {}}
    for name, layer in manifest.mapping.items():
        with contextlib.suppress(ConfigurationError):  # written by another version
            layers[name] = parse_mapping({key: value for key, value in layer.items() if key == parameter}, name)

    def first_value(data: Mapping[str, JSON], target: Mapping[str, JSON]) -> JSON:
        # A name that both have means the target's column.
        return next((row[column] for column in columns for row in (target, data) if column in row), None)

    return mapped_reader(layers, parameter) or first_value  # type: ignore[return-value]  # rows hold JSON


_LOGS = "*/*/events.jsonl"
"""Event logs of sessions, below a plug-in's folder in the run's folder."""


class Verified(msgspec.Struct, frozen=True):
    """The result of a check: the damage, and the parts that could not be checked, each in words.

    `rows` is the number of rows; None if it is unknown or 0.
    """

    run: Run
    status: str
    rows: int | None
    damage: tuple[str, ...]
    unchecked: tuple[str, ...]

    @property
    def whole(self) -> bool:
        """True if no damage was found."""
        return not self.damage


def verify(run: Run) -> Verified:
    """Read all files of a run, check them against each other, and return what is damaged; damage raises no error.

    Raises:
        ConfigurationError: the event log of a session cannot be read.
    """
    # Without a manifest, nothing else can be compared.
    try:
        manifest, status = run.manifest(), run.status()
    except ConfigurationError as error:
        return Verified(run, "unreadable", None, (str(error),), ())

    damage, unchecked = [*_damaged_logs(run)], []
    if manifest.digest is not UNSET and manifest.digest != digest_of(run.manifest_data()):
        damage.append("run.json has changed since the run wrote it")
    if status == "running":
        unchecked.append("another process is still writing this run")

    from tunecheck.pipeline._journal_reader import JournalReader

    names, answers, least = frozenset(manifest.evaluators), bool(manifest.target), manifest.records or 0
    try:
        reader = JournalReader(run.journal, by_row=True, evaluators=names, answers=answers, at_least=least)
        with contextlib.closing(reader) as journal:
            loss = journal.describe_loss(manifest.row_count or 0)
            if loss is not None:
                damage.append(f"journal.jsonl: {loss}")
            if status == "finished":
                damage += [*_damaged_results(run, manifest, journal)]
    except (ConfigurationError, RunError) as error:
        damage.append(str(error))

    if UNSET in (manifest.sha256, manifest.digest) and status == "finished":
        unchecked.append("results and metrics, because run.json has no digests of them")

    rows = manifest.row_count if status == "finished" else manifest.dataset.rows
    return Verified(run, status, rows or None, tuple(damage), tuple(unchecked))


def _damaged_logs(run: Run) -> Iterator[str]:
    """Yield a text on the damage of each event log that a session (such as a memory test) left in the run's folder."""
    for path in sorted(run.folder.glob(_LOGS)):
        with raise_as(ConfigurationError, path), open_regular(path) as file:
            damage = WholeRecords(path, file).read()
        if damage.lost:
            yield f"{path.relative_to(run.folder).as_posix()}: {damage}"


def _damaged_results(run: Run, manifest: RunFile, journal: JournalReader) -> Iterator[str]:
    """Yield the damage in a finished run's files: changes since the run wrote them, and contradictions."""
    yield from _changed_files((run.results, run.table, run.metrics_file), manifest)
    if run.metrics().get("rows") != manifest.row_count:
        yield f"metrics.json covers {run.metrics().get('rows')} rows, but the run has {manifest.row_count}"

    differing_rows: list[str] = []
    rows = run.rows()
    count = len(rows)
    # The journal gives as many indices as there are rows, even if their number is wrong.
    for index, row in zip(journal.indices(count), rows, strict=True):
        # A row with an error of the target has no answer. `error.results` marks values that the row could not hold.
        if manifest.target and "error.target" not in row and "error.results" not in row:
            answer = journal.answer(index, journal.answer_hash(index))
            if answer is None or any(row.get(f"outputs.{name}") != value for name, value in answer.items()):
                differing_rows.append(str(row.get("row_id")))

    if count != manifest.row_count:
        yield f"eval_results.jsonl has {plural(count, 'row')}, but the run has {manifest.row_count}"

    if differing_rows:
        differing = plural(len(differing_rows), "row")
        yield f"eval_results.jsonl and journal.jsonl differ in the answers to {differing} (first: {differing_rows[0]})"


def refuse_changed(run: Run, manifest: RunFile) -> None:
    """Refuse rows that have changed since the run wrote them; without a digest, changes cannot be detected.

    Raises:
        RunError: The rows have changed.
    """
    for changed in _changed_files([run.results], manifest):
        raise damage_error(run, changed)


def changed_since(run: Run, manifest: RunFile) -> str | None:
    """Return a note if a run's results seem to have changed since the run wrote them, else None.

    A quick check that may miss changes: digests are computed only for files that are newer than `run.json`, which the
    run writes last.
    """
    ended = run.manifest_file.stat().st_mtime_ns
    paths = [path for path in (run.results, run.metrics_file) if path.is_file()]
    changed = next(_changed_files(paths, manifest, newer_than=ended), None)
    return None if changed is None else f"run {run.id}: {changed} (see `tunecheck runs {run.id} --verify`)"


def _changed_files(paths: Iterable[Path], manifest: RunFile, newer_than: int = -1) -> Iterator[str]:
    """Yield a text for each file that differs from what the run wrote, as far as the manifest has sizes and digests.

    Digests are computed only for files that were written after `newer_than` (in nanoseconds).
    """
    sizes, digests = manifest.sizes or {}, manifest.sha256 or {}
    for path in (path for path in paths if path.name in digests):
        with raise_as(ConfigurationError, path):
            status = path.stat()
            # The size comes first, so that a file that grew huge is not read.
            has_changed = status.st_size != sizes.get(path.name, status.st_size)
            if not has_changed and status.st_mtime_ns > newer_than:
                has_changed = sha256_of(path) != digests[path.name]
        if has_changed:
            yield f"{path.name} has changed since the run wrote it"
