"""The names of this package that others may use; `__init__.py` loads them from their homes."""

from ._manifest import (
    changed_since as changed_since,
    describe_evaluators as describe_evaluators,
    kept_settings as kept_settings,
    resume_manifest as resume_manifest,
    reusable as reusable,
    value_reader as value_reader,
    verify as verify,
    versions as versions,
)
from ._store import (
    MIRROR_STATE as MIRROR_STATE,
    create_run as create_run,
    dumps_readably as dumps_readably,
    find_calibration as find_calibration,
    list_runs as list_runs,
    mirror_at as mirror_at,
    mirror_folder as mirror_folder,
    open_mirror as open_mirror,
    save_calibration as save_calibration,
    stopped_text as stopped_text,
)
