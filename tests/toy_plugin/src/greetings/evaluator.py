"""The benchmark's evaluator."""

from tunecheck import Fault, Metric, verdict


class GreetsByName:
    """Passes if the answer says hello and the person's name."""

    metrics = (Metric("greets", kind="binary"),)
    primary = "greets"
    scoring_version = 1

    def __call__(self, *, response: str, person: str) -> dict[str, object]:
        """Judge one answer; `person` is the data's column of that name."""
        missing = [word for word in ("hello", person.lower()) if word not in response.lower()]
        faults = [Fault(code="own", expected=word, message=f"does not say {word!r}") for word in missing]
        return dict(verdict("greets", score=float(not faults), passed=not faults, faults=faults))
