"""Uploads of finished runs: what all destinations share.

`_uploader` has the steps and what is sent, `_record` what was sent where. Packages for destinations subclass
`Uploader` and `RunUpload`.
"""

from tunecheck.plugins import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
