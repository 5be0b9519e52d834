"""Prices from a file: what a million tokens of each model cost.

    currency: USD
    models:
      gpt-4o-mini: {input_per_million: 0.15, output_per_million: 0.60}
      judge: {input_per_million: 2.0, output_per_million: 8.0, currency: EUR}

A name is a model, a deployment, or what an endpoint is called.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import msgspec

from tunecheck._describe import Written, read_as
from tunecheck._errors import ConfigurationError
from tunecheck._yaml import read_yaml
from tunecheck.endpoints._base import Endpoint, Price
from tunecheck.endpoints._config import Text


class PriceFile(Written, frozen=True):
    """A file of prices; `currency` is that of the models that name none."""

    currency: Text = "USD"
    models: dict[str, Price] = msgspec.field(default_factory=dict)


@dataclass(frozen=True)
class Prices:
    """Prices by model, deployment or endpoint name."""

    by_name: Mapping[str, Price]

    def give(self, endpoint: object) -> None:
        """Give an endpoint its price, where it has none of its own; what is not an endpoint gets none."""
        if not isinstance(endpoint, Endpoint) or endpoint.price is not None:
            return
        for name in (*endpoint.model_names, endpoint.name):
            if name in self.by_name:
                endpoint.price = self.by_name[name]
                return


def read_prices(path: Path) -> Prices:
    """The prices that a YAML file gives."""
    document = read_yaml(path)
    if not isinstance(document.value, dict):
        raise ConfigurationError(f"{path}: a price file is a mapping with `models:`")
    file = read_as(document.value, PriceFile, document.where)
    given = cast("dict[str, dict[str, object]]", document.value.get("models") or {})
    return Prices(
        msgspec.convert({name: {"currency": file.currency, **own} for name, own in given.items()}, dict[str, Price])
    )
