"""The names of this package that others may use; `__init__.py` loads them from their homes."""

from ._answers import (
    FilteredError as FilteredError,
    UnreadableReplyError as UnreadableReplyError,
    keys_of as keys_of,
    read_answer as read_answer,
    read_chat as read_chat,
    read_stream as read_stream,
    read_usage as read_usage,
    says_error as says_error,
)
from ._api_facts import ApiFacts as ApiFacts
from ._auth import can_import as can_import
from ._base import (
    ChatRequest as ChatRequest,
    Completion as Completion,
    Definition as Definition,
    DirectCalls as DirectCalls,
    Endpoint as Endpoint,
    EndpointConfig as EndpointConfig,
    ModelCalls as ModelCalls,
    Place as Place,
    Price as Price,
    Prices as Prices,
    Text as Text,
    Usage as Usage,
    content_parts as content_parts,
    mask_answer as mask_answer,
    read_prices as read_prices,
    time_text as time_text,
)
from ._chat import (
    AzureMLEndpoint as AzureMLEndpoint,
    AzureOpenAIEndpoint as AzureOpenAIEndpoint,
    ChatEndpoint as ChatEndpoint,
    OpenAIEndpoint as OpenAIEndpoint,
)
from ._client import Client as Client, Exchange as Exchange, ServiceCall as ServiceCall
from ._definition import load_endpoint as load_endpoint, read_definition as read_definition
from ._doctor.checks import CHECKS as CHECKS
from ._doctor.evidence import Diagnosis as Diagnosis
from ._doctor.examination import Examination as Examination, check_endpoint as check_endpoint, examine as examine
from ._http_endpoint import HttpConfig as HttpConfig, HttpEndpoint as HttpEndpoint, time_header as time_header
from ._limits import (
    TOKEN_BURST_S as TOKEN_BURST_S,
    Bucket as Bucket,
    Clock as Clock,
    EndCall as EndCall,
    SharedLimits as SharedLimits,
    TokenBucket as TokenBucket,
    retry_after_s as retry_after_s,
)
from ._masking import (
    ALL_SECRETS as ALL_SECRETS,
    MASK as MASK,
    Redactor as Redactor,
    Secret as Secret,
    looks_secret as looks_secret,
    storable_settings as storable_settings,
)
from ._python import PythonEndpoint as PythonEndpoint
from ._replay import ReplayEndpoint as ReplayEndpoint, content_key as content_key
from ._simulated import default_definition as default_definition, first_accepted_answer as first_accepted_answer
from ._target import (
    EndpointTarget as EndpointTarget,
    EndpointTargetBase as EndpointTargetBase,
    openai_tools as openai_tools,
    read_messages as read_messages,
)
from ._templates import RequestTemplate as RequestTemplate
from ._transport import is_loopback as is_loopback
