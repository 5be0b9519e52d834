"""The public names of this package and their homes; `__init__.py` loads them from there."""

from ._record import MARKER as MARKER, Destination as Destination, UploadRecord as UploadRecord
from ._uploader import (
    CREATE as CREATE,
    FIND as FIND,
    FINISH as FINISH,
    LOG_COLUMN as LOG_COLUMN,
    Artifact as Artifact,
    Contents as Contents,
    RunUpload as RunUpload,
    Uploaded as Uploaded,
    Uploader as Uploader,
    UploadError as UploadError,
    UploadStep as UploadStep,
    artifact as artifact,
    cell as cell,
    checked_id as checked_id,
    common_artifacts as common_artifacts,
    metric_keys as metric_keys,
    table_columns as table_columns,
    value_at as value_at,
)
