"""The base of kinds of memory tests, and the data of tests: definitions, steps, replies, points and scores.

1. `Kind.definitions` makes `MemoryTest`s, which are stored as files.
2. `Kind.steps` runs one: it yields a `Say`, `Wait` or `AskJudge` and is sent a `Replied`. By default, the steps are
   the lines of the script and its waits.
3. A kind whose steps count points returns `Points`. Otherwise `Kind.score` gets a `FinishedTest` and returns a `Score`.

A kind's name in a configuration is found as a Python file if it ends with ".py" (`kinds/haiku.py`), else among the
installed kinds and those of the workspace's `memory/`.
"""

from __future__ import annotations

import inspect
import math
import random
import re
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, cast

import msgspec

from tunecheck import ConfigurationError, PluginError
from tunecheck.plugins import JSON, Candidate, Trust, did_you_mean, discover, find, load, load_offer, plain
from tunecheck_memory.plugin import PLUGIN

if TYPE_CHECKING:
    from tunecheck.endpoints import Endpoint
    from tunecheck_memory._wording import SessionWording


class Wait(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    rename={"seconds": "time", "percentage": "percentage_finished"},
):
    """A pause of a test, during which the conversation continues: for tokens, seconds, or a share of the memory span.

    `percentage` is the share in percent, counted from the start of the test. If several are given, the pause ends when
    all have passed.
    """

    tokens: int = 0
    seconds: int = 0
    percentage: int | float = 0  # both types: 90 and 90.0 have different hashes in a resumed run

    def __post_init__(self) -> None:
        """Raise ValueError for an amount that is negative or not a number."""
        for name, value in (("tokens", self.tokens), ("seconds", self.seconds)):
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise ValueError(f"the {name} of a Wait must be a whole number of at least 0, not {value!r:.60}")
        if not is_number(self.percentage) or self.percentage < 0:
            raise ValueError(f"the percentage of a Wait must be a number of at least 0, not {self.percentage!r:.60}")


class Say(msgspec.Struct, frozen=True):
    """A message to the agent; the reply to a `question` is scored.

    If `register` is True, the test's callback starts with the reply to this message. In isolated mode, `steps` is not
    continued after such a registered message, as in the GoodAI benchmark: further steps and points are dropped.
    """

    message: str
    question: bool = False
    register: bool = False

    def __post_init__(self) -> None:
        """Raise ValueError for a message that is not text or cannot be sent."""
        if not isinstance(self.message, str):
            raise ValueError(f"the message of a Say must be text, not {self.message!r:.60}")
        self.message.encode()  # raises UnicodeEncodeError, a ValueError, for a lone surrogate


class AskJudge(msgspec.Struct, frozen=True):
    """A question to the judge during the run: `purpose` names the question, `values` are its inputs."""

    purpose: str
    values: Mapping[str, JSON]

    def __post_init__(self) -> None:
        """Raise ValueError or TypeError for a purpose that is not text or values without a JSON form."""
        if not isinstance(self.purpose, str) or not isinstance(plain(self.values), dict):
            raise ValueError("the purpose of an AskJudge must be text, and its values must be a dict of JSON values")


class Replied(msgspec.Struct, frozen=True):
    """The outcome of a step: the reply of agent or judge (None after a wait), and its start and end (µs since 1970)."""

    text: str | None
    sent_us: int
    at_us: int


class Points(msgspec.Struct, frozen=True):
    """The result of a test that counts its points itself: points, at most `most`, and reasons."""

    points: int | float  # both types: a logged integer must stay an integer
    most: int | float
    reasons: tuple[str, ...]

    def __post_init__(self) -> None:
        """Raise ValueError for points that are not numbers."""
        if not (is_number(self.points) and is_number(self.most)):
            raise ValueError(f"Points() needs two finite numbers, not {self.points!r:.60} and {self.most!r:.60}")


def is_number(value: object) -> bool:
    """Return whether a value is a finite number; booleans do not count."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


Step: TypeAlias = Say | Wait | AskJudge

Steps: TypeAlias = Generator[Step, Replied, Points | None]
"""A running test: it yields steps, is sent their outcomes, and may return points."""


class MemoryTest(msgspec.Struct, frozen=True, rename={"expected": "expected_responses"}):
    """One memory test as its definition file describes it.

    `title` is the folder name of its data set ("Colours"), `example` the file name without `.def.json`. `is_question`
    and `waits` have the length of `script`, or one more in a temporal test, which words its question at run time. By
    default, the waits spread the lines evenly.
    """

    title: str
    example: str
    script: tuple[str, ...] = ()
    is_question: tuple[bool, ...] = ()
    waits: tuple[Wait, ...] = ()
    expected: Sequence[Any] = ()
    can_be_interleaved: bool = True
    is_temporal: bool = False
    uses_callback: bool = False

    def __post_init__(self) -> None:
        """Spread the waits evenly if none are given; raise ValueError if the lists have different lengths.

        A temporal test has one more item in `is_question` than in `script`: its question is worded at run time.
        """
        lines, marked = len(self.script), len(self.is_question)
        if not self.waits:
            msgspec.structs.force_setattr(self, "waits", default_waits(marked))

        if marked != len(self.waits):
            raise ValueError(f"`is_question` has {marked} entries, `waits` has {len(self.waits)}; give equal numbers")
        if marked != lines and not (self.is_temporal and marked == lines + 1):
            raise ValueError(f"`script` has {lines} entries, `is_question` has {marked}; give both the same number")

    @property
    def id(self) -> str:
        """The test's name in logs: "Colours - 0"."""
        return f"{self.title} - {self.example}"

    @property
    def statements(self) -> int:
        """The number of lines that are not questions."""
        return len(self.script) - sum(self.is_question[: len(self.script)])


class FinishedTest(msgspec.Struct, frozen=True):
    """The data for scoring a finished test.

    responses: the agent's replies to the test's questions, in order.
    since_question: all replies in the conversation from the last question on, for tests with a callback; else empty.
    points: the points that the test counted itself, if any.
    """

    title: str
    expected: Sequence[JSON]
    responses: Sequence[str]
    questions: Sequence[str] = ()
    since_question: Sequence[str] = ()
    points: Points | None = None
    script: Sequence[str] = ()


class Score(msgspec.Struct, frozen=True):
    """A test's score from 0 to 1, and the reasons.

    `sure` is False if the rules may be wrong; the judge then scores the test, if there is one.
    """

    score: float
    reasons: tuple[str, ...]
    sure: bool = True


GROUP = "memory"
"""The entry-point group of kinds of tests."""


def default_waits(lines: int) -> tuple[Wait, ...]:
    """Return the waits that spread this number of lines evenly over 90% of the memory span: one after each line.

    For four lines, they last until 30%, 60% and 90% of the span after the start; the last one is empty.
    """
    share = 90 / (lines - 1) if lines > 1 else 0
    waits = [Wait(percentage=(line + 1) * share) for line in range(lines - 1)]
    return (*waits, Wait()) if lines else ()


class GenerationContext(msgspec.Struct, frozen=True):
    """The inputs for new definitions: the run's seed, the memory span, the user's texts and the generator model."""

    seed: int
    memory_span: int
    texts: Path | None = None
    generator: Endpoint | None = None

    def random(self, title: str, example: str) -> random.Random:
        """Return the random generator of one example, which depends only on the seed, the kind and the example."""
        return random.Random(f"{self.seed}/{title}/{example}")


class Scene(msgspec.Struct, frozen=True):
    """The context of a running test: the clock (µs since 1970, UTC), its random generator, and the wording."""

    now_us: Callable[[], int]
    random: random.Random
    wording: SessionWording


class Kind:
    """Base class of all kinds of memory tests.

    The constructor gets the arguments of the data set in the configuration as keywords. It must store each argument in
    an attribute of the same name.

    `name` is the name in configurations ("colours"), `title` the name of the folder and the beginning of ids
    ("Colours"). Tests of one kind, or of two kinds with a common topic, never overlap. If `resets` is True, the session
    sends a message after the test that makes the agent forget it.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    topics: ClassVar[frozenset[str]] = frozenset()
    resets: ClassVar[bool] = False
    consults: ClassVar[bool] = False
    """True if its tests ask the judge while they run."""
    judged: ClassVar[bool] = False
    """True if only a judge can score its tests."""
    judge_prompt: ClassVar[str] = "memory_recall"
    """The prompt file by which a judge scores its tests."""
    judged_in_parts: ClassVar[bool] = False
    """True if the judge checks a single reply for each expected part; one accepted word of a part suffices."""
    needs_texts: ClassVar[bool] = False
    """True if its tests need the user's texts; a run without `--texts` leaves the data set out."""

    @classmethod
    def argument_names(cls) -> tuple[str, ...]:
        """Return the names of the arguments that a configuration may give: the parameters of the kind's `__init__`."""
        if cls.__init__ is object.__init__:
            return ()
        parameters = inspect.signature(cls).parameters.values()
        return tuple(each.name for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY))

    @property
    def arguments(self) -> Mapping[str, JSON]:
        """Return the kind's arguments, read from its attributes, for definitions, rows and fingerprints."""
        return {name: getattr(self, name) for name in self.argument_names()}

    def definitions(self, count: int, making: GenerationContext) -> list[MemoryTest]:
        """Return the first `count` tests. Equal arguments and seeds must give equal tests.

        Raises:
            ConfigurationError: Texts or a generator are missing; the message says what to give.
        """
        return [self.definition(str(number), making) for number in range(count)]

    def definition(self, example: str, making: GenerationContext) -> MemoryTest:
        """Return one test. A kind implements this method or `definitions`; the base class raises ConfigurationError."""
        raise ConfigurationError(f"the kind {type(self).__name__} makes no tests; add definition() or definitions()")

    def steps(self, definition: MemoryTest, scene: Scene) -> Steps:
        """Run a test: yield its steps and get the reply to each. Return its points, or None to score it by `score`.

        By default, the steps are the script's lines, each followed by its wait; a temporal test's question comes last.

        Raises:
            ConfigurationError: a temporal test has no `temporal_question`.
        """
        said_us: list[int] = []
        for message, question, wait in zip(definition.script, definition.is_question, definition.waits, strict=False):
            replied = yield Say(message, question=question, register=question and definition.uses_callback)
            said_us.append(replied.sent_us)
            if wait != Wait():
                yield wait

        if definition.is_temporal and len(definition.is_question) > len(definition.script):
            yield Say(self.temporal_question(definition, said_us, scene), question=True)
        return None

    def temporal_question(self, definition: MemoryTest, statements_us: Sequence[int], scene: Scene) -> str:
        """Return the question of a temporal test, worded at run time from the times (µs) at which its lines were sent.

        A kind with temporal tests implements this method; the base class raises ConfigurationError.
        """
        raise ConfigurationError(f"the class {type(self).__name__} makes temporal tests; add temporal_question()")

    def is_over(self, definition: MemoryTest, replies: Sequence[str]) -> bool:
        """Return True if a test with a callback needs no further replies.

        `replies` are those since its question, with the reply to the question. By default, that reply suffices.
        """
        return True

    def score(self, given: FinishedTest) -> Score | None:
        """Score a finished test by rules; return None if only a judge can. A test's own points take precedence."""
        return None


def conflicts(kinds: Iterable[Kind], declared: Sequence[frozenset[str]], by_topics: bool) -> dict[str, set[str]]:
    """Return for each title the titles with which its tests must not overlap, including itself.

    `declared` are the configuration's sets of titles; with `by_topics`, kinds with a common topic conflict, too.

    Example: `names` and `name_list` have the topic "name of the user" in common, so each blocks both.
    """
    by_title = {kind.title: kind for kind in kinds}
    blocked = {title: {title} for title in by_title}

    for titles in declared:
        for title in titles & blocked.keys():
            blocked[title] |= titles & blocked.keys()

    if by_topics:
        for title, kind in by_title.items():
            blocked[title] |= {other.title for other in by_title.values() if other.topics & kind.topics}
    return blocked


# -- finding kinds


def find_kind(
    name: str, arguments: Mapping[str, JSON] | None = None, *, folder: Path | None = None, trust: Trust | None = None
) -> Kind:
    """Return the kind with this name ("colours"), or in this file ("kinds/haiku.py", relative to `folder`).

    `trust` decides which files may load; by default all.

    Raises:
        PluginError: No kind has this name, or its code does not load.
        ConfigurationError: An argument is unknown or wrong.
    """
    return make_kind(kind_class(name, folder=folder, trust=trust), arguments or {})


def kind_class(name: str, *, folder: Path | None = None, trust: Trust | None = None) -> type[Kind]:
    """Return the class of a kind, by name or file, like `find_kind`.

    Raises:
        PluginError: No kind has this name, or its code does not load.
        UntrustedError: `trust` does not allow the file.
    """
    if is_kind_file(name):
        path = ((folder or Path()) / name).resolve()
        if not path.is_file():
            raise PluginError(f"{path} does not exist; give the path relative to the configuration's folder")
        if trust is not None:
            trust.check(path, "run its code as a kind of memory test", folder=GROUP)
        loaded = load(Candidate(GROUP, path.stem, str(path), partial(load_offer, path), path))
    else:
        installed = discover(GROUP)
        names = [each.name for each in installed]
        if name not in names:
            raise PluginError(f"there is no memory data set {name!r}{did_you_mean(name, names)}")
        loaded = find(GROUP, name, among=installed, trust=trust)

    if not (isinstance(loaded, type) and issubclass(loaded, Kind)):
        raise PluginError(f"{name!r} is not a kind of memory test; give a class derived from tunecheck_memory.Kind")
    return loaded


def is_kind_file(name: str) -> bool:
    """Return whether a data set's name in a configuration is the path of a Python file."""
    return name.lower().endswith(".py")


def make_kind(kind: type[Kind], arguments: Mapping[str, JSON]) -> Kind:
    """Return a kind with these arguments of a configuration.

    Raises:
        ConfigurationError: An argument is unknown, or the kind refuses the arguments.
    """
    known = kind.argument_names()
    for name in arguments:
        if name not in known:
            hint = did_you_mean(name, known) or "; leave out the argument"
            raise ConfigurationError(f"the memory data set {kind.name!r} has no argument {name!r}{hint}")

    try:
        instance = kind(**arguments)
        dict(instance.arguments)  # raises if the kind does not store its arguments
        return instance
    except ConfigurationError:
        raise
    except Exception as error:  # noqa: BLE001 - a user's kind may raise anything
        raise ConfigurationError(
            f"the kind {kind.name!r} fails ({type(error).__name__}: {error}); correct the kind or its arguments"
        ) from error


# The plain titles that differ from the kind's name: Key-Value Pairs, and a title in the GoodAI benchmark.
_OTHER_TITLES = {"keyvaluepairs": "kv", "conflictingpersonalinformation": "conflictingpersonalinfo"}


def shipped_kind(title: str) -> type[Kind] | None:
    """Return the shipped kind with this title or name ("Spy Meeting", "spy_meeting"), or None if there is none."""
    plain = plain_title(title)
    return _kinds_by_title().get(_OTHER_TITLES.get(plain, plain))


@lru_cache(maxsize=1)
def _kinds_by_title() -> Mapping[str, type[Kind]]:
    """Return the shipped kinds by the plain forms of their names, such as "spymeeting"."""
    return {plain_title(kind.name): kind for kind in shipped_kinds()}


def shipped_kinds() -> list[type[Kind]]:
    """Return all shipped kinds, which loads their modules."""
    return [cast("type[Kind]", extension.load()) for extension in PLUGIN.own_kinds[GROUP].values()]


def plain_title(title: str) -> str:
    """Return a title in lower case, with letters and digits only: "spymeeting" for "Spy Meeting" and "spy_meeting"."""
    return re.sub(r"[\W_]+", "", title[:200].lower())
