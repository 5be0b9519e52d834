"""The public names of this package and their homes; `__init__.py` loads them from there."""

from ._contents import (
    LOG_COLUMN as LOG_COLUMN,
    Artifact as Artifact,
    Contents as Contents,
    artifact as artifact,
    cell as cell,
    common_artifacts as common_artifacts,
    metric_keys as metric_keys,
    table_columns as table_columns,
)
from ._record import MARKER as MARKER, Destination as Destination, UploadRecord as UploadRecord
from ._uploader import (
    CREATE as CREATE,
    FIND as FIND,
    FINISH as FINISH,
    RunUpload as RunUpload,
    Uploaded as Uploaded,
    Uploader as Uploader,
    UploadError as UploadError,
    UploadStep as UploadStep,
    value_at as value_at,
)
