"""The benchmark's rows, and what they declare."""

from tunecheck.datasets import Dataset, DatasetDefaults, open_dataset

ROWS = [
    {"id": "ada", "query": "I am Ada. Please greet me.", "person": "Ada", "answer": "Hello, Ada!"},
    {"id": "bob", "query": "My name is Bob. Say hello.", "person": "Bob", "answer": "Hello, Bob!"},
]


def load_greetings(argument: str) -> Dataset:
    """Return the rows of `greetings:all`, or those of one person: `greetings:ada`."""
    rows = [row for row in ROWS if argument in ("all", row["id"])]
    mapping = {"response": "${target.response}", "ground_truth": "${data.answer}"}
    defaults = DatasetDefaults(column_mapping=mapping, evaluators=["greets"], primary="greets")
    return open_dataset(rows).with_defaults(defaults, name="greetings")
