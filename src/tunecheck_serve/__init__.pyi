"""The public names of this package and their homes; `__init__.py` loads them from there."""

from ._middleware import (
    Middleware as Middleware,
    ReplyStore as ReplyStore,
    Service as Service,
    json_reply as json_reply,
)
from ._wire import BadRequestError as BadRequestError, read_object as read_object
