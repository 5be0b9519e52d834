"""Request templates (`{"input_data": "${messages}"}`) and paths into a reply (`choices[0].message`).

With the template

    {"input_data": "${messages}", "tools": "${tools}", "user": "id-${data.customer}", "key": "${env:KEY}"}

and a row without tools, whose column `customer` is 7, the body is

    {"input_data": [{"role": "user", "content": "Hi"}], "user": "id-7", "key": "…"}
"""

import re
from collections.abc import Mapping

from tunecheck._json import JSON, Missing, ValuePath, find_value, map_texts, parse_path, text_or_json
from tunecheck._messages import did_you_mean
from tunecheck.endpoints._base import ChatRequest, Place, time_text
from tunecheck.endpoints._masking import ENV_REFERENCE, Redactor, resolve

# A reference such as `${messages}` or `${data.customer}`, or the literal `$${`.
_REFERENCE = re.compile(r"\$\$\{|\$\{([^}]*)\}")
# References besides `${data.…}` and `${env:…}`.
_NAMES = ("messages", "parameters", "time", "tools")


class RequestTemplate:
    """A request body with references, which the constructor checks.

    `${messages}`, `${tools}`, `${parameters}` and `${data.column}` stand for values. If a text is only a reference, the
    value replaces it; inside a longer text, the value is inserted as text or JSON. `${time}` is the simulated time of a
    conversation (ISO 8601, UTC), or empty. A key with the value `${tools}` or `${time}` is left out if there are no
    tools or no time. `$${` is a literal `${`. Values of `${env:NAME}` are added to the redactor.
    """

    def __init__(self, body: JSON, place: Place, redactor: Redactor) -> None:
        """Check all references in the body; note their names in `references`, `data` for `${data.customer}`.

        Raises:
            ConfigurationError: a reference is unknown, or a variable is not set.
        """
        self.references: set[str] = set()

        def checked(text: str, path: ValuePath) -> JSON:
            """Return a text of the body with environment variables inserted; check and note its other references."""
            text_place = Place(place.document, path)

            # Texts without references may still be secrets, which `resolve` refuses under a key for secrets.
            if "${" not in text:
                return resolve(text, text_place, redactor)
            return _REFERENCE.sub(lambda match: self._reference(match, text_place, redactor), text)

        self._body = map_texts(body, checked, place.path)

    def render(self, request: ChatRequest, parameters: Mapping[str, JSON]) -> JSON:
        """Return the body for one request.

        Raises:
            ValueError: the row lacks a column that the template names.
        """
        messages: list[JSON] = [dict(message) for message in request.messages]
        tools: list[JSON] | None = None if request.tools is None else [dict(tool) for tool in request.tools]
        time = "" if request.sent_at is None else time_text(request.sent_at)
        values: dict[str, JSON] = {"messages": messages, "tools": tools, "parameters": dict(parameters), "time": time}

        # Keys with only such a reference as their value are left out.
        left_out = {f"${{{name}}}" for name in ("tools", "time") if not values[name]}

        def value_of(name: str) -> JSON:
            """Return the value for a reference; raise ValueError if it names a missing column."""
            if name in values:
                return values[name]
            # The path in the row follows `data`: `customer` in `data.customer`.
            value = find_value(request.row.values if request.row else {}, parse_path(name)[1:])
            if isinstance(value, Missing):
                raise ValueError(f"the row has no value for ${{{name}}} in the endpoint's `request`: add it to the row")
            return value

        def filled(value: JSON) -> JSON:
            """Fill in the references of a part of the body; drop fields with a reference in `left_out`."""
            if isinstance(value, dict):
                return {
                    key: filled(item) for key, item in value.items() if not (isinstance(item, str) and item in left_out)
                }
            if isinstance(value, list):
                return [filled(item) for item in value]
            if not isinstance(value, str):
                return value

            # A whole reference keeps the value's type, such as a list; within a text, it becomes text.
            whole = _REFERENCE.fullmatch(value)
            if whole and whole[1] is not None:
                return value_of(whole[1])

            # A match without a name is `$${`, which stands for `${` itself.
            return _REFERENCE.sub(lambda match: "${" if match[1] is None else text_or_json(value_of(match[1])), value)

        return filled(self._body)

    def _reference(self, match: re.Match[str], place: Place, redactor: Redactor) -> str:
        """Return a reference unchanged after checking and noting its first name; replace a variable of the environment.

        Raises:
            ConfigurationError: the name is unknown, or the variable is empty or not set.
        """
        reference, name = match[0], match[1]
        if name is None:  # `$${`, which stands for `${` itself
            return reference

        if ENV_REFERENCE.fullmatch(reference):
            # A value that contains `${` must not be read as a reference later.
            return str(resolve(reference, place, redactor)).replace("${", "$${")

        try:
            first, *columns = parse_path(name)
        except ValueError:
            first, columns = "", []

        if name not in _NAMES and (first != "data" or not columns):
            known = [*_NAMES, "data.<column>", "env:<NAME>"]
            raise place.error(f"the request template has an unknown reference {reference}{did_you_mean(name, known)}")
        self.references.add(str(first))
        return reference
