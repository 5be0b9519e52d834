"""Azure AI Evaluation's typed dictionaries for models, projects, evaluators, conversations and results."""

from typing import Literal, NotRequired, TypedDict


class AzureOpenAIModelConfiguration(TypedDict):
    """A deployment of Azure OpenAI. Without `api_key`, the evaluator's `credential` or Entra ID signs in."""

    type: NotRequired[Literal["azure_openai"]]
    azure_deployment: str
    azure_endpoint: str
    api_key: NotRequired[str]
    api_version: NotRequired[str]
    credential: NotRequired[object]


class OpenAIModelConfiguration(TypedDict):
    """A model of OpenAI's API, or of a compatible API at `base_url`."""

    type: NotRequired[Literal["openai"]]
    api_key: str
    model: str
    base_url: NotRequired[str]
    organization: NotRequired[str]
    extra_headers: NotRequired[dict[str, str]]


class AzureAIProject(TypedDict):
    """A hub project of Azure AI Foundry."""

    subscription_id: str
    resource_group_name: str
    project_name: str


class EvaluatorConfig(TypedDict, total=False):
    """Configuration of one evaluator: which column feeds which parameter."""

    column_mapping: dict[str, str]


class Message(TypedDict):
    """A message of a conversation; `content` is a text or a list of parts."""

    role: str
    content: str | list[dict[str, object]]
    context: NotRequired[dict[str, object]]


class Conversation(TypedDict):
    """A conversation, which evaluators judge turn by turn."""

    messages: list[Message] | list[dict[str, object]]
    context: NotRequired[dict[str, object]]


class EvaluationResult(TypedDict):
    """The result of `evaluate()`."""

    rows: list[dict[str, object]]
    metrics: dict[str, object]
    studio_url: NotRequired[str | None]
