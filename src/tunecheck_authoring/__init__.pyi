"""The public names of this package and the modules that define them; `__init__.py` loads them on first use."""

from ._audit.audit import Audit as Audit, audit as audit
from ._audit.checks import (
    PROBLEMS as PROBLEMS,
    CheckedRow as CheckedRow,
    Finding as Finding,
    RowCheck as RowCheck,
    checked_rows as checked_rows,
)
from ._audit.dialogue import AuditFinding as AuditFinding, Dialogue as Dialogue, DialogueReader as DialogueReader
from ._author.pipeline import AuthorReport as AuthorReport, author as author
from ._cli import AuthorOptions as AuthorOptions, ExportOptions as ExportOptions
from ._export import ExportReport as ExportReport, export as export
from ._mcp.service import write_recorded as write_recorded
from ._service_file import write_simulator as write_simulator
from ._table_simulators import Action as Action, Recorded as Recorded, Resource as Resource, Resources as Resources
