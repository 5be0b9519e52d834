"""An endpoint as a target: the columns that it reads, and the inputs that answers depend on."""

from typing import Any

import pytest
from tests.endpoint_parts import row
from tests.tables import cases

from tunecheck import CallContext, ConfigurationError
from tunecheck.endpoints import ChatRequest, Completion, Endpoint, EndpointTarget, Usage, load_endpoint
from tunecheck.plugins import JSON

CONTEXT = CallContext("run", "row-1", "hash")
USER = [{"role": "user", "content": "hi"}]
SCHEMA: dict[str, Any] = {"name": "f", "description": "d", "parameters": {"type": "object", "properties": {}}}
TOOL: dict[str, Any] = {"type": "function", "function": SCHEMA}


class Recorder(Endpoint):
    """Answers nothing much and remembers what it was asked."""

    kind = "recorder"
    name = "rec"

    def __init__(self, **settings: JSON) -> None:
        self.asked: list[ChatRequest] = []
        self.closed = False
        self._settings = settings

    async def complete(self, request: ChatRequest) -> Completion:
        self.asked.append(request)
        return Completion("hello", usage=Usage(1, 2), latency_ms=3.0, finish_reason="stop", request_id="r")

    def settings(self) -> dict[str, JSON]:
        return dict(self._settings)

    async def close(self) -> None:
        self.closed = True


async def asked(values: dict[str, JSON], mapping: dict[str, str] | None = None) -> ChatRequest:
    endpoint = Recorder()
    await EndpointTarget(endpoint, mapping).answer(row(values), CONTEXT)
    return endpoint.asked[0]


async def test_an_answer_comes_back_as_columns() -> None:
    endpoint = Recorder()
    target = EndpointTarget(endpoint)
    assert await target.answer(row({"query": "hi"}), CONTEXT) == {
        "response": "hello",
        "text": "hello",
        "tool_calls": None,
        "usage": {"input_tokens": 1, "output_tokens": 2},
        "latency_ms": 3.0,
        "finish_reason": "stop",
        "request_id": "r",
        "simulated": False,
    }
    await target.close()
    assert endpoint.closed


@pytest.mark.parametrize(
    "values",
    [{"query": "hi"}, {"messages": "hi"}, {"messages": USER}, {"query": USER}, {"messages": USER, "query": "other"},
     {"messages": None, "query": "hi"}],
)  # fmt: skip
async def test_messages_are_the_column_messages_else_query(values: dict[str, JSON]) -> None:
    request = await asked({"id": "1", "answer": "x", **values})
    assert list(request.messages) == USER
    assert request.tools is None
    assert request.parameters == {}


@pytest.mark.parametrize("column", ["tools", "tool_definitions"])
@pytest.mark.parametrize(
    "value", [[TOOL], [SCHEMA], TOOL, SCHEMA, [{"function": SCHEMA}], [{"type": "function", **SCHEMA}]]
)
async def test_tools_arrive_in_openais_form(column: str, value: JSON) -> None:
    assert (await asked({"query": "hi", column: value})).tools == [TOOL]


async def test_tools_may_be_json_text() -> None:
    assert (await asked({"query": "hi", "tools": '[{"name": "f"}]'})).tools == [
        {"type": "function", "function": {"name": "f"}}
    ]


@pytest.mark.parametrize("value", [None, "", "  ", "null"])
async def test_no_tools_are_none(value: JSON) -> None:
    assert (await asked({"query": "hi", "tools": value})).tools is None


async def test_the_row_and_its_key_go_along() -> None:
    request = await asked({"id": "7", "query": "hi"})
    assert request.idempotency_key == CONTEXT.idempotency_key()
    assert request.row is not None
    assert request.row.id == "7"


async def test_a_mapping_names_other_columns() -> None:
    request = await asked(
        {"messages": "not this", "prompt": {"text": "hi"}, "functions": [SCHEMA], "options": {"t": 0.1}},
        {"messages": "${data.prompt.text}", "tools": "functions", "parameters": "${data.options}"},
    )
    assert list(request.messages) == USER
    assert request.tools == [TOOL]
    assert request.parameters == {"t": 0.1}


@cases("endpoints")
async def test_a_row_that_cannot_be_asked_says_why(values: dict[str, JSON], problem: str) -> None:
    with pytest.raises(ValueError) as caught:
        await asked(values)
    assert problem in str(caught.value)


async def test_a_mapped_column_must_be_there() -> None:
    problem = r"column functions is empty in this row: fill it, or map target\.tools to another column"
    with pytest.raises(ValueError, match=problem):
        await asked({"query": "hi"}, {"tools": "functions"})
    with pytest.raises(ValueError, match="column p must hold an object of parameters"):
        await asked({"query": "hi", "p": 5}, {"parameters": "p"})


@cases("endpoints")
def test_a_wrong_mapping_is_a_configuration_error(mapping: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        EndpointTarget(Recorder(), mapping)
    assert problem in str(caught.value)


class TestInputs:
    def test_are_messages_tools_and_parameters_only(self) -> None:
        target = EndpointTarget(Recorder())
        one = target.inputs(row({"id": "1", "query": "hi", "answer": "x", "tools": [SCHEMA]}))
        two = target.inputs(row({"id": "2", "query": "hi", "answer": "y", "tools": [TOOL]}))
        assert one == two == {"messages": USER, "tools": [TOOL], "parameters": {}}

    def test_are_the_whole_row_where_the_endpoint_looks_at_it(self) -> None:
        endpoint = Recorder()
        endpoint.depends_on_row = True
        values: dict[str, JSON] = {"id": "1", "query": "hi", "answer": "x"}
        assert EndpointTarget(endpoint).inputs(row(values)) == values

    def test_of_a_template_with_columns_are_the_whole_row(self) -> None:
        template = {"q": "${messages}", "user": "${data.user}"}
        endpoint = load_endpoint({"kind": "azure_ml", "url": "https://a.b/c", "request": template})
        values: dict[str, JSON] = {"query": "hi", "user": "Ann"}
        assert EndpointTarget(endpoint).inputs(row(values)) == values

    def test_of_a_row_that_cannot_be_asked_are_the_whole_row(self) -> None:
        assert EndpointTarget(Recorder()).inputs(row({"query": 5})) == {"query": 5}


async def test_an_endpoint_that_finds_answers_by_row_needs_no_messages() -> None:
    endpoint = Recorder()
    endpoint.depends_on_row = True
    await EndpointTarget(endpoint).answer(row({"id": "1"}), CONTEXT)
    assert list(endpoint.asked[0].messages) == []


class TestFingerprint:
    def of(self, **values: Any) -> str | None:
        return EndpointTarget(load_endpoint({"kind": "azure_ml", "url": "https://a.b/c", **values})).fingerprint()

    def test_follows_what_answers_depend_on(self) -> None:
        assert self.of() == self.of(timeout_s=7, retries=1, limits={"concurrency": 3}, price={"input_per_million": 1})
        assert self.of() == self.of(auth={"type": "key", "value": "${env:HOME}"})
        values: list[dict[str, Any]] = [
            *({}, {"parameters": {"t": 1}}, {"response": "r"}, {"url": "https://a.b/d"}),
            {"headers": {"azureml-model-deployment": "green"}},
        ]
        assert len({self.of(**each) for each in values}) == len(values)

    def test_tells_kinds_apart(self) -> None:
        assert EndpointTarget(Recorder()).fingerprint() != self.of()


def test_a_description_is_the_settings_and_the_name() -> None:
    described = EndpointTarget(load_endpoint({"kind": "azure_ml", "url": "https://a.b/c"}, name="x")).describe()
    assert described == {"name": "x", "simulated": False, "kind": "azure_ml", "url": "https://a.b/c"}


@cases("endpoints")
def test_data_without_a_column_for_messages_is_refused_before_the_first_row(
    mapping: dict[str, str], columns: list[str], fits: bool
) -> None:
    target = EndpointTarget(
        load_endpoint({"kind": "openai", "url": "http://127.0.0.1:1", "model": "m"}), mapping=mapping
    )
    if fits:
        target.check_columns(frozenset(columns))
    else:
        with pytest.raises(ConfigurationError, match=r"with the messages to send: .*columns: \$\{data.prompt\}"):
            target.check_columns(frozenset(columns))
