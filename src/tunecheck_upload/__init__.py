"""Uploads of finished runs: the part that all destinations share.

`_uploader` has the steps, the contents and the record (`upload.json`) of an upload. Packages for destinations subclass
`Uploader` and `RunUpload`.
"""

from tunecheck.plugins import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
