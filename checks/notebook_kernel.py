"""Runs a notebook in a real kernel, in an environment with nbclient and ipykernel: cells in, outputs out, as JSON."""

import json
import sys

import nbformat  # type: ignore[import-not-found]
from nbclient import NotebookClient  # type: ignore[import-not-found]

cells = json.loads(sys.argv[1])
notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
updates: list[str] = []


class Watching(NotebookClient):  # type: ignore[misc]
    """Keeps what a cell's display was updated to, too: at the end only the last of it is there."""

    def process_message(self, message: dict, cell: object, index: int) -> object:  # type: ignore[type-arg]
        if message["msg_type"] == "update_display_data":
            updates.append(message["content"]["data"].get("text/html", ""))
        return super().process_message(message, cell, index)


Watching(notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": sys.argv[2]}}).execute()
print(json.dumps({"outputs": [cell.outputs for cell in notebook.cells], "updates": updates}))
