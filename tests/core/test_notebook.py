"""How results look in a notebook (a real kernel: `checks/test_notebook.py`)."""

import re
import sys
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest
from tests.comparison_parts import passes

from tunecheck import compare, evaluate, select
from tunecheck.plugins import NotebookProgress, Progress
from tunecheck.views import Chart, Interval, Table, Text, View, html


def words(html: str) -> str:
    """The text that a reader sees; the markup is whole, else it cannot be read."""
    return " ".join("".join(ElementTree.fromstring(html).itertext()).split())


def test_nothing_that_comes_from_data_is_markup() -> None:
    bad = "<script>alert(1)</script>&\x1b[31m"
    written = html(View(bad, [Text([bad]), Chart([Interval(bad, 0.5, 0.2, 0.7)]), Table([bad], [[bad]])], [bad]))
    assert "<script" not in written
    assert words(written).count("alert(1)") == 5


def test_a_chart_has_a_line_at_0_and_each_value_within_its_interval() -> None:
    chart = Chart([Interval("a", -0.1, -0.3, 0.1), Interval("b", 0.2, None, None), Interval("c", None, None, None)])
    written = html(View("", [chart]))
    lines = [float(x) for x in re.findall(r'x1="([0-9.]+)"', written)]
    values = [float(x) for x in re.findall(r'cx="([0-9.]+)"', written)]
    zero, low = lines
    assert low < values[0] < zero < values[1]


def test_a_result_shows_its_rates_its_means_and_its_errors(tmp_path: Path) -> None:
    def mean(**row: object) -> dict[str, float]:
        if row["n"] == 3:
            raise ValueError("no")
        return {"mean": 0.25}

    rows = [{"n": n, "response": "yes", "ground_truth": "yes" if n else "no"} for n in range(4)]
    made = evaluate(data=rows, evaluators={"f1": "f1_score", "mean": mean}, results_dir=tmp_path, workers=0)
    said = words(made._repr_html_())
    assert "4 rows, 1 with an error" in said
    assert re.search(r"f1 ?75\.0% ?30\.1% to 95\.4%", said), said
    assert "0.250" in said
    assert made._repr_html_().startswith('<div class="tex2jax_ignore mathjax_ignore">'), "amounts in $ are no formulas"


def test_a_comparison_and_a_selection_say_what_the_command_line_says(tmp_path: Path) -> None:
    base, new = (passes(tmp_path, name, [n < up_to for n in range(100)]) for name, up_to in (("base", 40), ("new", 70)))
    assert "match: better, 40.0% → 70.0%, +30.0 points" in words(compare(base, new)._repr_html_())
    selection = select(base, new)
    assert selection.decision.because[0] in words(selection._repr_html_())


class Shell:
    """The part of IPython that a kernel's output needs; keeps what is shown."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.updates: list[str] = []
        self.kernel = self
        display = SimpleNamespace(HTML=str, display=lambda *_, **__: self)
        monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: self))
        monkeypatch.setitem(sys.modules, "IPython.display", display)

    def update(self, html: str) -> None:
        self.updates.append(html)


def test_in_a_notebook_a_run_says_how_far_it_is_and_elsewhere_only_if_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"response": "a", "ground_truth": "a"}] * 3
    evaluate(data=rows, evaluators={"f1": "f1_score"}, results_dir=tmp_path, workers=0)
    assert capsys.readouterr().err == ""
    shell = Shell(monkeypatch)
    evaluate(data=rows, evaluators={"f1": "f1_score"}, results_dir=tmp_path, workers=0, progress=False)
    assert shell.updates == []
    evaluate(data=rows, evaluators={"f1": "f1_score"}, results_dir=tmp_path, workers=0, evaluation_name="<i>")
    assert "3 of 3 rows" in shell.updates[-2]
    assert "&lt;i&gt;" in shell.updates[-2]
    assert shell.updates[-1] == ""


def test_the_line_says_what_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    shell = Shell(monkeypatch)
    NotebookProgress("run")(Progress(None, 5, 4, 2, 0, "waiting"))
    assert words(shell.updates[-1]) == "run · 4 rows · 2 with an error · waiting"
