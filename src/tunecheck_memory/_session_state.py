"""The state of a session: the state of each test, computed event by event from the log."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field

from tunecheck.plugins import JSON, CallsMade
from tunecheck_memory._clock import as_iso
from tunecheck_memory._effects import Begin, Consult, Deregister, Effect, End, Outcome, Register, Send, Waiting
from tunecheck_memory._event_log import Event
from tunecheck_memory._kind import Points


@dataclass(frozen=True, slots=True)
class Moment:
    """A place in a conversation: the messages and tokens before it, and the time (µs since 1970, UTC)."""

    message: int
    tokens: int
    at_us: int

    def data(self) -> dict[str, JSON]:
        return {"message": self.message, "tokens": self.tokens, "at": as_iso(self.at_us)}


@dataclass(slots=True)
class Spent:
    """Calls and their total latency."""

    made: CallsMade = field(default_factory=CallsMade)
    latency_ms: float | None = None

    def add(self, outcome: Outcome) -> None:
        if outcome.adopted:  # no call was made
            return
        self.made = self.made.plus(outcome.made)
        if outcome.latency_ms is not None:
            self.latency_ms = (self.latency_ms or 0.0) + outcome.latency_ms

    def data(self) -> dict[str, JSON]:
        """Return calls and tokens, and other counts that are not 0."""
        counted = asdict(self.made)
        always: dict[str, JSON] = {name: counted.pop(name) for name in ("input_tokens", "output_tokens", "calls")}
        return always | {name: value for name, value in counted.items() if value}


@dataclass(slots=True)
class TestState:
    """The state of one test.

    `spent` counts the calls of its own exchanges, `judged` its calls to the judge, `share` all calls of the
    conversation since the previous test ended. `characters` counts those of the whole conversation while the test
    lasted.
    """

    __test__ = False  # not a pytest class

    id: str
    begun: Moment
    ended: Moment | None = None
    log: list[JSON] = field(default_factory=list)
    questions: list[str] = field(default_factory=list)
    responses: list[str] = field(default_factory=list)
    since_question: list[str] = field(default_factory=list)
    points: Points | None = None
    spent: Spent = field(default_factory=Spent)
    share: Spent = field(default_factory=Spent)
    judged: Spent = field(default_factory=Spent)
    characters: int = 0
    simulated: bool = False
    question_at: int | None = None
    registered: bool = False

    def note(self, what: str, moment: Moment, **values: JSON) -> None:
        self.log.append({"what": what, **moment.data(), **values})


class SessionState:
    """The state of all tests of a session, computed from its events in order; `count` counts the tokens of a text.

    `generated_tokens` and `generated_ms` exclude adopted replies and replies without a measured time.
    """

    def __init__(self, count: Callable[[str], int]) -> None:
        self.tests: dict[str, TestState] = {}
        self.messages = 0
        self.fillers = 0
        self.tokens = 0
        self.agent_tokens = 0
        self.generated_tokens = 0
        self.generated_ms = 0.0
        self._count = count
        self._characters = 0
        self._replies: list[str] = []
        self._share = Spent()

    @classmethod
    def of(cls, events: Iterable[Event], count: Callable[[str], int]) -> SessionState:
        """Return the state after these events of a log."""
        state = cls(count)
        for event in events:
            if event.outcome is not None:
                state.note(event.effect, event.outcome)
        return state

    def note(self, effect: Effect, outcome: Outcome) -> TestState | None:
        if isinstance(effect, Send):
            self._note_exchange(effect, outcome)
        elif isinstance(effect, Begin):
            state = self.tests[effect.test] = TestState(
                effect.test, self._moment(outcome), characters=-self._characters
            )
            state.note("begin", state.begun)
        elif isinstance(effect, End):
            state = self.tests[effect.test]
            self._keep_since_question(state)
            state.points = effect.points
            state.ended = self._moment(outcome)
            state.characters += self._characters
            state.share, self._share = self._share, Spent()
            state.note("end", state.ended)
            return state
        elif isinstance(effect, (Consult, Waiting, Register, Deregister)):
            self._note_of_test(self.tests[effect.test], effect, outcome)
        return None

    def _moment(self, outcome: Outcome) -> Moment:
        return Moment(self.messages, self.tokens, outcome.at_us)

    def _note_exchange(self, effect: Send, outcome: Outcome) -> None:
        reply = outcome.text or ""
        before = self._moment(outcome)
        said, answered = self._count(effect.message), self._count(reply)
        self.messages += 1
        self.fillers += effect.filler
        self.tokens += said + answered
        self.agent_tokens += answered
        if outcome.latency_ms is not None and not outcome.adopted:
            self.generated_tokens += answered
            self.generated_ms += outcome.latency_ms
        self._characters += len(effect.message) + len(reply)
        if not outcome.simulated:
            self._share.add(outcome)
        self._replies.append(reply)
        if not effect.filler:
            self._note_own(self.tests[effect.test], effect, outcome, before)

    def _note_own(self, state: TestState, effect: Send, outcome: Outcome, before: Moment) -> None:
        reply = outcome.text or ""
        if effect.question:
            state.questions.append(effect.message)
            state.responses.append(reply)
            state.question_at = len(self._replies) - 1
        state.spent.add(outcome)
        state.simulated |= outcome.simulated
        more: dict[str, JSON] = {
            "adopted": outcome.adopted,
            "declined": outcome.declined,
            "reasoning": outcome.reasoning,
        }
        state.note(
            "question" if effect.question else "statement",
            before,
            size=self.tokens - before.tokens,
            said=effect.message,
            reply=reply,
            ms=outcome.latency_ms,
            **{name: value for name, value in more.items() if value},
        )

    def _note_of_test(
        self, state: TestState, effect: Consult | Waiting | Register | Deregister, outcome: Outcome
    ) -> None:
        now = self._moment(outcome)
        match effect:
            case Waiting(_, tokens, seconds):
                state.note("wait", now, for_tokens=tokens, for_seconds=seconds)
            case Consult():
                state.simulated |= outcome.simulated
                if outcome.judged_by_model:
                    state.judged.add(outcome)
                state.note("judge", now, purpose=effect.purpose, values=effect.values, reply=outcome.text)
            case Register():
                state.registered = True
                state.note("callback", now)
            case Deregister():
                state.note("callback over", now)
                self._keep_since_question(state)

    def _keep_since_question(self, state: TestState) -> None:
        if state.registered and state.question_at is not None:
            state.since_question = self._replies[state.question_at :]
            state.registered = False
