"""A run as JUnit XML: gates and error rates as tests."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal
from xml.etree import ElementTree

from tunecheck._causes import METRIC
from tunecheck.cli._evaluate.summary import Summary

# What XML 1.0 cannot hold, not even escaped (section 2.2, Char).
_NO_XML = re.compile("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MOST = 2_000


@dataclass(frozen=True, slots=True)
class _Case:
    """One test: what was found, and the element that tells how it ended, None where it passed."""

    group: str
    name: str
    found: str
    ended: Literal["failure", "error", "skipped"] | None


def junit_xml(summary: Summary, allowed_errors: float | None) -> bytes:
    """One test suite, with a test for each gate and for each evaluator's share of errors.

    `allowed_errors` is the share of rows that may have an error; without one, a test of errors fails where every row
    has one. A gate that is undecided is an error, and skipped where that counts as met. Each test takes as long as the
    run, which decides them all.
    """
    cases = [*_cases(summary, allowed_errors)]
    ended = Counter(case.ended for case in cases)
    counts = {
        "tests": str(len(cases)),
        "failures": str(ended["failure"]),
        "errors": str(ended["error"]),
        "skipped": str(ended["skipped"]),
        "time": f"{summary.seconds:.3f}",
    }
    root = ElementTree.Element("testsuites", {"name": "tunecheck", **counts})
    suite = ElementTree.SubElement(root, "testsuite", {"name": _text(summary.name), **counts})
    _add_properties(suite, summary)
    for case in cases:
        attributes = {"classname": case.group, "name": _text(case.name), "time": counts["time"]}
        element = ElementTree.SubElement(suite, "testcase", attributes)
        if case.ended is None:
            ElementTree.SubElement(element, "system-out").text = _text(case.found)
        else:
            about = {"message": _text(case.found)} | ({} if case.ended == "skipped" else {"type": case.group})
            ElementTree.SubElement(element, case.ended, about).text = _text(case.found)
    ElementTree.indent(root)
    document: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return document + b"\n"


def _cases(summary: Summary, allowed: float | None) -> Iterator[_Case]:
    for outcome in summary.gates:
        remark = f" ({outcome.remark})" if outcome.remark else ""
        said = f"required {outcome.gate}, found {outcome.found_text}{remark}"
        undecided: Literal["error", "skipped"] = "skipped" if summary.undecided == "pass" else "error"
        ended = None if outcome.met else undecided if outcome.undecided else "failure"
        yield _Case("tunecheck.gates", outcome.gate, said, ended)
    for name in summary.evaluators:
        count = summary.metrics.get(f"{name}.error_count")
        failed = count if isinstance(count, int) else 0
        rate = failed / summary.rows if summary.rows else 0.0
        met = rate <= allowed if allowed is not None else rate < 1
        most = f", allowed {allowed:.6g}" if allowed is not None else ""
        said = f"error rate of {name}: {failed:,} of {summary.rows:,} rows ({rate:.6g}){most}"
        yield _Case("tunecheck.errors", f"{name} error rate", said, None if met else "failure")


def _add_properties(suite: ElementTree.Element, summary: Summary) -> None:
    about = {
        "data": summary.data,
        "source": summary.source,
        "folder": summary.folder,
        "rows": str(summary.rows),
        "rows_with_an_error": str(summary.failed_rows),
        "simulated": str(summary.simulated).lower(),
    }
    if summary.stopped:
        about["stopped_early"] = summary.stopped
    for name in summary.failures.faults:
        about |= {f"failed.{name}.{code}": str(rows) for code, rows in summary.failures.by_code(name).items()}
    about |= {f"{METRIC}{code}": str(group.rows) for code, group in summary.failures.causes.items()}
    properties = ElementTree.SubElement(suite, "properties")
    for name, value in about.items():
        ElementTree.SubElement(properties, "property", {"name": _text(name), "value": _text(value)})


def _text(value: str) -> str:
    text = _NO_XML.sub("", value.replace("\r\n", "\n").replace("\r", "\n"))
    return text if len(text) <= _MOST else f"{text[: _MOST - 1]}…"
