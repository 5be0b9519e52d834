"""The option that this package adds to `evaluate`."""

from tunecheck import ConfigurationError, Run
from tunecheck.cli import AddedOptions, Addition, AfterRun, option


class GreetingsOptions(AddedOptions):
    """The option `--find-person`."""

    find_person: str | None = option("After the run, say whether PERSON was greeted.", "PERSON")

    def before_run(self, *, simulated: bool, allow_simulated: bool) -> AfterRun:
        """Check the option, and return the function that looks for the person."""
        if self.find_person == "":
            raise ConfigurationError("--find-person is empty: give a name")

        def find(run: Run) -> Addition:
            if self.find_person is None:
                return Addition()
            rows = [row for row in run.rows() if row.get("inputs.person") == self.find_person]
            greeted = any(row.get("outputs.greets.greets_passed") is True for row in rows)
            return Addition({"found": greeted}, [f"{self.find_person}: {'greeted' if greeted else 'not greeted'}"])

        return find
