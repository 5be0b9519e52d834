"""The public names of this package and their homes; `__init__.py` loads them from there."""

from ._upload import MlflowUploader as MlflowUploader
