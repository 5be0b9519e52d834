"""The public names of this package and the modules that define them; `__init__.py` loads them on first use."""

from ._audit.audit import Audit as Audit, audit as audit
from ._audit.conversations import (
    PROBLEMS as PROBLEMS,
    CheckedRow as CheckedRow,
    checked_rows as checked_rows,
    findings as findings,
)
from ._audit.dialogue import AuditFinding as AuditFinding, Dialogue as Dialogue, DialogueReader as DialogueReader
from ._audit.rows import Finding as Finding, RowCheck as RowCheck
from ._author.pipeline import AuthorReport as AuthorReport, author as author
from ._cli.author import AuthorOptions as AuthorOptions
from ._cli.export import ExportOptions as ExportOptions
from ._export import ExportReport as ExportReport, export as export
from ._mcp.service import write_recorded as write_recorded
from ._service_file import write_simulator as write_simulator
from ._services.recorded import Recorded as Recorded
from ._services.resources import Action as Action, Resource as Resource, Resources as Resources
