"""Uploads of finished runs: what all destinations share.

`_uploader` has the steps, `_calls` the requests and their retries, `_record` what was sent where.
"""

from tunecheck.plugins import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
