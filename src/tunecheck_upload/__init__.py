"""Uploads of finished runs: the part that all destinations share.

`_uploader` has the steps and the contents of an upload, `_record` the state of each upload. Packages for destinations
subclass `Uploader` and `RunUpload`.
"""

from tunecheck.plugins import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
