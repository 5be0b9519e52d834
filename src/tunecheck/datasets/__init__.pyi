"""The names of this package that others may use; `__init__.py` loads them from their homes."""

from ._converting import ConversionReport as ConversionReport, convert as convert
from ._judging import JUDGING_COLUMNS as JUDGING_COLUMNS, Judging as Judging
from ._reading import (
    SOURCE_ID as SOURCE_ID,
    TRIAL as TRIAL,
    Dataset as Dataset,
    open_dataset as open_dataset,
    usable_id as usable_id,
)
from ._sources import (
    ROLES as ROLES,
    DatasetDefaults as DatasetDefaults,
    Digest as Digest,
    JsonLinesSource as JsonLinesSource,
    Record as Record,
    Source as Source,
    UnusableRowError as UnusableRowError,
    as_list as as_list,
    as_object as as_object,
    as_text as as_text,
    read_sidecar as read_sidecar,
    refuse as refuse,
    sidecar_path as sidecar_path,
    sidecar_text as sidecar_text,
)
from ._tables import CsvSource as CsvSource
from ._training import (
    CALL_EVALUATORS as CALL_EVALUATORS,
    MAX_GROWTH as MAX_GROWTH,
    ConversationError as ConversationError,
    Form as Form,
    Turns as Turns,
    as_object_list as as_object_list,
    as_tools as as_tools,
    forms as forms,
)
