"""The README's path from an own data set to a comparison, step by step."""

import re
import shlex
from pathlib import Path

from tests.cli_parts import ROOT, inside
from tests.fault_server import FaultServer, Request, Step, answer

PAGE = (ROOT / "README.md").read_text("utf-8")
PATH = PAGE.partition("## Your own data")[2].partition("From Python")[0]


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PATH, re.S | re.M)


def answered(request: Request, attempt: int) -> Step:
    """A model that books for as many people as it was fine-tuned for."""
    body = request.json()
    assert isinstance(body, dict)
    people = 2 if body["model"] == "iteration-7" else 3
    function = {"name": "book_table", "arguments": f'{{"people": {people}}}'}
    message = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "1", "type": "function", "function": function}],
    }
    return answer({"choices": [{"message": message, "finish_reason": "tool_calls"}]})


def test_the_five_commands_lead_from_a_workspace_to_a_decision(tmp_path: Path) -> None:
    init, check, evaluate, compare_and_view = blocks("sh")
    sidecar, endpoint = blocks("yaml")
    assert inside(tmp_path, *shlex.split(init.partition("&&")[0])[1:]).code == 0
    folder = tmp_path / "my-evaluation"
    (folder / "datasets" / "mine.jsonl").write_text(blocks("json")[0], "utf-8")
    (folder / "datasets" / "mine.yaml").write_text(sidecar, "utf-8")
    with FaultServer(answered) as server:
        for name in ("iteration-6", "iteration-7"):
            text = endpoint.replace("http://127.0.0.1:8000", server.url).replace("model: iteration-6", f"model: {name}")
            (folder / "endpoints" / f"{name}.yaml").write_text(text, "utf-8")
        checked = inside(folder, *shlex.split(check)[1:])
        ran = inside(folder, *shlex.split(evaluate)[1:], COLUMNS="200")
    assert "checked 1 row: no problems" in checked.out
    assert "iteration-6 (openai): answered" in checked.out
    assert (ran.code, ran.err) == (0, "")
    assert "match passed: iteration-6 0 of 1 (0.0%); iteration-7 1 of 1 (100.0%)." in " ".join(ran.out.split())
    compared = inside(folder, *shlex.split(compare_and_view.splitlines()[0])[1:])
    assert compared.code == 0
    assert "iteration-7" in compared.out


def test_the_readme_has_at_most_700_words() -> None:
    outside = re.sub(r"^```.*?^```$", "", PAGE, flags=re.S | re.M)
    assert len(outside.split()) <= 700
