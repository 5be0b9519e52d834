"""A page of results as JUnit XML: a test case for each check, a property for each fact."""

from __future__ import annotations

import re
from collections import Counter

from tunecheck._messages import without_log_commands
from tunecheck.views._model import View, text_of

# Characters that XML 1.0 does not allow, not even escaped (section 2.2, Char).
_NO_XML = re.compile("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_LONGEST = 2_000


def junit(view: View, seconds: float) -> bytes:
    """Return a page's checks as one test suite; each test has the duration of the whole run."""
    from xml.etree import ElementTree

    ended = Counter(check.ended for check in view.checks)
    counts = {
        "tests": str(len(view.checks)),
        "failures": str(ended["failure"]),
        "errors": str(ended["error"]),
        "skipped": str(ended["skipped"]),
        "time": f"{seconds:.3f}",
    }
    root = ElementTree.Element("testsuites", {"name": "tunecheck", **counts})
    suite = ElementTree.SubElement(root, "testsuite", {"name": _text(text_of(view.title)), **counts})
    properties = ElementTree.SubElement(suite, "properties")
    for name, value in view.facts.items():
        ElementTree.SubElement(properties, "property", {"name": _text(name), "value": _text(value)})
    for check in view.checks:
        about = {"classname": check.group, "name": _text(check.name), "time": counts["time"]}
        case = ElementTree.SubElement(suite, "testcase", about)
        if check.ended is None:
            ElementTree.SubElement(case, "system-out").text = _text(check.found)
        else:
            kind = {} if check.ended == "skipped" else {"type": check.group}
            ElementTree.SubElement(case, check.ended, {"message": _text(check.found)} | kind).text = _text(check.found)
    ElementTree.indent(root)
    document: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return document + b"\n"


def _text(value: str) -> str:
    text = without_log_commands(_NO_XML.sub("", value.replace("\r\n", "\n").replace("\r", "\n")))
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
