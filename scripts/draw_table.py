"""Draw docs/images/table.svg: the main job's final table, as a terminal shows it.

python scripts/draw_table.py
"""

from __future__ import annotations

import io
import os
import pty
import re
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
WIDTH = 84


def main() -> None:
    """Run the main job in a terminal of its own and draw what it printed."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "evaluate.py", "--dataset", "datasets/val.jsonl", "--results-dir", folder]
        evaluators = ["--evaluators", "function_call_match,argument_match,rouge", "--name", "iteration-7"]
        os.chdir(ROOT)
        os.environ.update(COLUMNS=str(WIDTH), TERM="xterm-256color")
        printed: list[bytes] = []
        pty.spawn([*command, *evaluators], lambda descriptor: _keep(os.read(descriptor, 65536), printed))
        shown = b"".join(printed).decode().replace("\r\n", "\n")
        shown = re.sub(rf"\s+--results-dir\s+{re.escape(folder)}", "", shown).replace(folder, "eval_results")
    # The progress bar was drawn over and taken away: what counts begins with the first sentence.
    shown = shown[shown.index("SIMULATED answers") :]
    console = Console(record=True, width=WIDTH, file=io.StringIO())
    console.print("$ python evaluate.py --dataset datasets/val.jsonl --name iteration-7 \\", highlight=False)
    console.print(f"    {' '.join(evaluators[:2])}", highlight=False)
    console.print(Text.from_ansi(shown))
    svg = console.export_svg(title="tunecheck")
    target = ROOT / "docs" / "images" / "table.svg"
    target.parent.mkdir(exist_ok=True)
    target.write_text(re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL), encoding="utf-8")


def _keep(chunk: bytes, printed: list[bytes]) -> bytes:
    printed.append(chunk)
    return chunk


if __name__ == "__main__":
    main()
