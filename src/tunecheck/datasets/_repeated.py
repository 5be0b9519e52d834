"""Each row of a data set several times: trials of the same question, for how reliably it is answered."""

import re
from collections.abc import Iterator
from dataclasses import replace

from tunecheck._errors import ConfigurationError
from tunecheck._targets import Row
from tunecheck.datasets._reading import Dataset, Scan

TRIAL, SOURCE_ID = "trial", "source_id"
"""The columns that trials have beside those of their row: from 1 on, and the row's own id."""

_OF_A_TRIAL = re.compile(r".*#\d+", re.DOTALL)


class RepeatedDataset(Dataset):
    """`times` trials of each row, one after another.

    The first keeps the row's id, the others are `<id>#2`, `<id>#3` and so on.

    """

    def __init__(self, inner: Dataset, times: int) -> None:
        super().__init__(inner._source, defaults=inner.defaults)
        self.name = inner.name
        self.times = times
        self._inner = inner

    def scan(self) -> Scan:
        """What the data set itself found; with as many rows as there are trials, and their columns."""
        scan = self._inner.scan()
        taken = sorted(scan.columns & {TRIAL, SOURCE_ID})
        if taken:
            raise ConfigurationError(f"repeat: the data has a column {taken[0]!r}, which trials add; rename it")
        rows = None if scan.rows is None else scan.rows * self.times
        return replace(scan, rows=rows, columns=scan.columns | {TRIAL, SOURCE_ID})

    def rows(self) -> Iterator[Row]:
        """The trials in order."""
        for row in self._inner.rows():
            if _OF_A_TRIAL.fullmatch(row.id):
                raise ConfigurationError(f"repeat: the id {row.id!r} looks like that of a trial; rename it")
            for trial in range(1, self.times + 1):
                name = row.id if trial == 1 else f"{row.id}#{trial}"
                values = {**row.values, TRIAL: trial, SOURCE_ID: row.id}
                yield Row((row.index * self.times) + trial - 1, name, values, row.fingerprint)
