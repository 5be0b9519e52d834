"""The public names of this package and their homes; `__init__.py` loads them from there."""

from ._uploader import (
    CREATE as CREATE,
    FIND as FIND,
    FINISH as FINISH,
    LOG_COLUMN as LOG_COLUMN,
    MARKER as MARKER,
    Artifact as Artifact,
    Contents as Contents,
    Destination as Destination,
    RunUpload as RunUpload,
    Uploaded as Uploaded,
    Uploader as Uploader,
    UploadError as UploadError,
    UploadRecord as UploadRecord,
    UploadStep as UploadStep,
    cell as cell,
    checked_id as checked_id,
    common_artifacts as common_artifacts,
    metric_keys as metric_keys,
    table_columns as table_columns,
    value_at as value_at,
)
