"""Where a local server's answers come from: anything that answers chats; here, an endpoint."""

from abc import ABC, abstractmethod

from tunecheck.endpoints import ChatRequest, Completion, Endpoint


class ChatSource(ABC):
    """What the server asks. `name` is offered as the model's name."""

    name: str

    @abstractmethod
    async def answer(self, request: ChatRequest) -> Completion:
        """Answer one chat.

        Raises:
            NoAnswerError: nothing is known about these messages.
            EndpointError: the answer is an error; its status and text are passed on.
            ProblemError: the answer is this error reply.
        """

    async def close(self) -> None:
        """Release what is held open."""


class EndpointSource(ChatSource):
    """Answers of an endpoint that goes by messages."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.name = endpoint.name
        self._endpoint = endpoint

    async def answer(self, request: ChatRequest) -> Completion:
        return await self._endpoint.complete(request)

    async def close(self) -> None:
        await self._endpoint.close()
