"""Questions and answers for a memory run's filler, from the files that they are published in.

Read are TriviaQA's own files (one object whose list `Data` has `Question` and `Answer` with its `Value` or
`NormalizedValue`), the GoodAI benchmark's `trivia.json` (`AnswerValue` instead), arrays and JSON Lines of entries of
either form or with `question` and `answer`. All but JSON Lines must fit into memory.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from tunecheck._errors import ConfigurationError, DataError, told_as
from tunecheck._json import JSON, dumps_line
from tunecheck._whole_files import replacing
from tunecheck.datasets._converting import check_out
from tunecheck.datasets._reading import locate
from tunecheck.datasets._sources import CHUNK, JsonArraySource, JsonLinesSource

_HEAD = 1 << 20  # bytes within which a file's list must begin
_LIST = re.compile(rb'"Data"\s*:\s*\[')


@dataclass
class TriviaReport:
    """What a conversion did: where the questions are, how many, and how many entries had no question or answer."""

    out: Path
    questions: int = 0
    left_out: int = 0


def convert_trivia(source: Path, out: Path, *, overwrite: bool = False) -> TriviaReport:
    """Write `{"question": …, "answer": …}` for each entry of `source` to `out`, in order and word for word.

    Raises:
        ConfigurationError: `out` is there and `overwrite` is not set, or it cannot be written.
        DataError: `source` cannot be read, or has no questions in it.
    """
    source = locate(str(source), ())
    check_out(source, out, overwrite=overwrite)
    report = TriviaReport(out)
    with told_as(ConfigurationError, out, "cannot be written"):
        out.parent.mkdir(parents=True, exist_ok=True)
        with replacing(out) as temporary, temporary.open("wb") as file:
            for entry in _entries(source):
                pair = _pair(entry)
                if pair is None:
                    report.left_out += 1
                else:
                    report.questions += 1
                    file.write(dumps_line(pair))
            if not report.questions:
                what = f"none of its {report.left_out:,} entries has a question with an answer"
                raise DataError(f"{source}: {what if report.left_out else 'holds no entries'}")
    return report


def _entries(path: Path) -> Iterator[JSON]:
    source = JsonLinesSource(path)
    start = next((text for chunk in source.chunks() if (text := chunk.lstrip())), b"")
    if start.startswith(b"["):
        return iter(JsonArraySource(path).items())
    if not _LIST.search(b"".join(islice(source.chunks(), _HEAD // CHUNK))):
        return (record for _, record in source.records())
    published = JsonArraySource(path).value()
    entries = published.get("Data") if isinstance(published, dict) else None
    return iter(entries if isinstance(entries, list) else [])


def _pair(entry: JSON) -> dict[str, JSON] | None:
    if not isinstance(entry, dict):
        return None
    question = entry.get("Question", entry.get("question"))
    answer = _answer(entry)
    if not isinstance(question, str) or not question.strip() or answer is None:
        return None
    return {"question": question, "answer": answer}


def _answer(entry: dict[str, JSON]) -> str | None:
    given = next((entry[key] for key in ("AnswerValue", "Answer", "answer") if key in entry), None)
    if isinstance(given, dict):
        keys = ("Value", "value", "NormalizedValue", "normalized_value")
        given = next((given[key] for key in keys if given.get(key)), None)
    return given if isinstance(given, str) and given.strip() else None
