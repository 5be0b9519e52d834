"""Equal things have equal fingerprints, changed ones do not, and unknowable ones have None."""

import functools
import math
import operator
import os
import random
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, strategies as st
from tests.tables import cases

from tunecheck._fingerprints import stable_arguments
from tunecheck.plugins import content_hash, discover, find, fingerprint, load_file


class Threshold:
    def __init__(self, least: object) -> None:
        self.least = least

    def __call__(self, *, response: str) -> bool:
        return len(response) >= int(str(self.least))

    def other(self, *, response: str) -> bool:
        return not response


class Slotted:
    __slots__ = ("least",)

    def __init__(self, least: int) -> None:
        self.least = least

    def __call__(self, *, response: str) -> bool:
        return len(response) >= self.least


class Declaring:
    def __init__(self, least: int) -> None:
        self.arguments = {"least": least}
        self.cache: object = object()

    def __call__(self, *, response: str) -> bool:
        return len(response) >= self.arguments["least"]


def long_enough(response: str, least: int = 3) -> bool:
    return len(response) >= least


def closing_over(value: object) -> Callable[..., object]:
    return lambda response: [response, value]


@given(st.dictionaries(st.text(), st.integers() | st.text(), max_size=8), st.randoms())
def test_equal_content_in_any_order_has_one_hash(content: dict[str, object], shuffled: random.Random) -> None:
    items = list(content.items())
    shuffled.shuffle(items)
    assert content_hash(dict(items)) == content_hash(content)


def test_text_and_number_have_different_hashes() -> None:
    assert len({content_hash(value) for value in ("1", 1, 1.0, True, None, [1], {"1": 1})}) == 7


@pytest.mark.parametrize(
    "make",
    [
        lambda n: Threshold(n),
        lambda n: Declaring(n),
        lambda n: functools.partial(long_enough, least=n),
        lambda n: Threshold(n).other,
        closing_over,
    ],
    ids=["attributes", "declared", "partial", "bound method", "closure"],
)
def test_arguments_count(make: Callable[[int], object]) -> None:
    assert fingerprint(make(1)) == fingerprint(make(1)) is not None
    assert fingerprint(make(1)) != fingerprint(make(2))


@pytest.mark.parametrize(
    "thing",
    [
        Threshold(object()),
        Threshold(lambda: 1),
        closing_over(object()),
        functools.partial(closing_over, value=object()),
        Threshold({1, 2}).other,
        Slotted(1),
        math.sqrt,
        operator.itemgetter("a"),
        "text".startswith,
        functools.lru_cache(long_enough),
    ],
    ids=lambda thing: type(thing).__name__,
)
def test_what_cannot_be_told_from_another_has_none(thing: object) -> None:
    assert fingerprint(thing) is None


def test_an_object_that_must_not_be_looked_at_has_none() -> None:
    class Hostile:
        @property
        def arguments(self) -> dict[str, int]:
            raise RuntimeError("no")

        def __call__(self, response: str) -> int:
            return 1

    assert fingerprint(Hostile()) is None


def test_a_closure_over_a_name_that_has_no_value_yet_has_none() -> None:
    def early(response: str) -> object:
        return late

    found = fingerprint(early)
    late = 1
    assert found is None
    assert fingerprint(early) is not None
    assert late


def test_the_default_of_a_parameter_counts() -> None:
    functions = [eval(f"lambda response, least={least}: least") for least in (1, 2)]
    assert fingerprint(functions[0]) != fingerprint(functions[1])


def test_functions_that_differ_only_in_code_differ() -> None:
    assert fingerprint(eval("lambda x: x + 1")) != fingerprint(eval("lambda x: x + 2"))
    assert fingerprint(eval("lambda x: x.a")) != fingerprint(eval("lambda x: x.b"))


def test_arguments_that_are_no_data_are_not_shown() -> None:
    assert stable_arguments(Threshold(3)) == {"least": 3}
    assert stable_arguments(Threshold(object())) is None


def module(folder: Path, text: str) -> ModuleType:
    path = folder / "judge.py"
    path.write_text(text)
    sys.modules.pop("fingerprinted_judge", None)
    return load_file(path, "fingerprinted_judge")


def made(folder: Path, text: str, name: str) -> object:
    """The fingerprint of the class or function of this name in a module with this text."""
    thing = getattr(module(folder, text), name)
    return fingerprint(thing() if isinstance(thing, type) else thing)


BOTH = """
class Judge:
    def __call__(self, *, response):
        return {"n": helper(response)}

def judge(response):
    return helper(response)

def helper(response):
    return len(response)
"""


@pytest.mark.parametrize("name", ["Judge", "judge"])
def test_a_change_anywhere_in_the_source_file_counts(tmp_path: Path, name: str) -> None:
    first = made(tmp_path, BOTH, name)
    assert first == made(tmp_path, BOTH, name) is not None
    assert first != made(tmp_path, BOTH.replace("len(response)", "len(response) + 1"), name)


@pytest.mark.parametrize("name", ["Judge", "judge"])
@cases("others")
def test_comments_docstrings_and_layout_do_not_count(tmp_path: Path, name: str, old: str, new: str) -> None:
    assert made(tmp_path, BOTH, name) == made(tmp_path, BOTH.replace(old, new), name) is not None


def test_code_in_memory_counts_where_the_file_has_changed_since_it_was_imported(tmp_path: Path) -> None:
    first = module(tmp_path, BOTH)
    changed = BOTH.replace('{"n": helper(response)}', '{"n": 1}')
    (tmp_path / "judge.py").write_text(changed)
    stale = fingerprint(first.Judge())
    assert stale != fingerprint(module(tmp_path, changed).Judge())


SCRIPT = """
from tunecheck._fingerprints import fingerprint
LEAST = 3
def helper(text): return len(text) >= LEAST
def judge(response): return helper(response)
class Judge:
    factor = 1
    def __call__(self, *, response): return helper(response) in {"a", "b", "c"}
def unrelated(): return 1
print(fingerprint(judge), fingerprint(Judge()), fingerprint(lambda response: judge(response)))
"""


def run_as_script(text: str, *, seed: str = "0") -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(text)],
        env=os.environ | {"PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


def test_what_a_script_defines_has_the_same_fingerprint_in_every_process() -> None:
    prints = run_as_script(SCRIPT)
    assert prints == run_as_script(SCRIPT, seed="7")
    assert len(set(prints)) == 3
    assert "None" not in prints


@pytest.mark.parametrize(("old", "new"), [("LEAST = 3", "LEAST = 4"), ("len(text) >=", "len(text) <=")])
def test_what_a_script_s_evaluator_uses_of_the_script_counts(old: str, new: str) -> None:
    changed = run_as_script(SCRIPT.replace(old, new))
    assert not set(changed) & set(run_as_script(SCRIPT))


def test_what_it_does_not_use_of_the_script_does_not_count() -> None:
    assert run_as_script(SCRIPT) == run_as_script(SCRIPT.replace("unrelated(): return 1", "unrelated(): return 2"))


def test_a_constant_of_a_script_s_class_counts() -> None:
    before, after = run_as_script(SCRIPT), run_as_script(SCRIPT.replace("factor = 1", "factor = 2"))
    assert (before[0] == after[0], before[1] == after[1]) == (True, False)


class Shipped:
    """Stands for an evaluator that ships with Tunecheck."""

    scoring_version = 1

    def __call__(self, *, response: str) -> int:
        return len(response)


Shipped.__module__ = "tunecheck.evaluators"


def test_what_ships_counts_with_its_scoring_version_and_not_with_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    before = fingerprint(Shipped())
    monkeypatch.setattr(Shipped, "__call__", lambda self, *, response: len(response) + 0)
    assert fingerprint(Shipped()) == before is not None
    monkeypatch.setattr(Shipped, "scoring_version", 2)
    assert fingerprint(Shipped()) not in (before, None)


def test_what_ships_without_a_scoring_version_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(Shipped, "scoring_version")
    assert fingerprint(Shipped()) is None


def test_one_s_own_subclass_of_what_ships_counts_with_both(monkeypatch: pytest.MonkeyPatch) -> None:
    class Longer(Shipped):
        def __call__(self, *, response: str) -> int:
            return 2 * len(response)

    before = fingerprint(Longer())
    assert before not in (fingerprint(Shipped()), None)
    monkeypatch.setattr(Shipped, "scoring_version", 2)
    assert fingerprint(Longer()) not in (before, None)


@pytest.mark.parametrize("name", sorted(each.name for each in discover("evaluators") if each.plugin is not None))
def test_every_evaluator_that_ships_has_a_scoring_version(name: str) -> None:
    assert isinstance(getattr(find("evaluators", name), "scoring_version", None), int)


def test_an_argument_s_place_in_the_call_does_not_matter() -> None:
    def keywords(**arguments: Any) -> object:
        return fingerprint(functools.partial(long_enough, **arguments))

    assert keywords(response="a", least=1) == keywords(least=1, response="a")
