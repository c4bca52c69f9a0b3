"""Prices of models: a data file of our own, and the user's over it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from transforms.errors import InputError

PRICES = Path(__file__).with_name("prices.yaml")

_MILLION = 1_000_000
_FIELDS = frozenset({"input", "cached_input", "output", "batch", "source", "as_of"})
#: What names a model's snapshot of a day, which costs what the model costs.
_SNAPSHOT = re.compile(r"-\d{4}-\d{2}-\d{2}$")


@dataclass(frozen=True)
class Price:
    """What a model's tokens cost, in US dollars per million.

    ``cached_input`` is for input that the endpoint says it had read before; ``batch`` is the part
    of all three that an offline batch costs; ``source`` and ``as_of`` tell whose figures these are,
    and of when.
    """

    input: float
    cached_input: float
    output: float
    source: str = ""
    as_of: str = ""
    batch: float = 1.0

    def by_batch(self) -> Price:
        """Return what the same tokens cost in an offline batch."""
        return replace(
            self,
            input=self.batch * self.input,
            cached_input=self.batch * self.cached_input,
            output=self.batch * self.output,
            source=f"{self.source}; in batches {self.batch:g} of it".removeprefix("; "),
            batch=1.0,
        )

    def cost(self, prompt: float, completion: float, cached: float = 0) -> float:
        """Return US dollars for so many tokens; ``cached`` ones are among those of the prompt."""
        read = max(0, prompt - cached)
        return (
            read * self.input + cached * self.cached_input + completion * self.output
        ) / _MILLION


#: Of the embedded model: this machine serves it.
NOTHING = Price(0.0, 0.0, 0.0, source="the embedded model runs on this machine")


def price_of(model: str, path: str | None = None) -> Price | None:
    """Return the price of ``model``, or None where neither the user's file nor ours has one.

    Args:
        model: the name that calls are made under; a dated snapshot costs what its model costs.
        path: the user's own file; what it names goes before ours.

    Raises:
        InputError: a file can't be read, or has another form.
    """
    prices = load_prices(PRICES)
    if path is not None:
        prices.update(load_prices(Path(path)))
    return prices.get(model) or prices.get(_SNAPSHOT.sub("", model))


def load_prices(path: Path) -> dict[str, Price]:
    """Return the prices of a file by model.

    Raises:
        InputError: it can't be read, or has another form than ``prices.yaml``.
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        if not isinstance(content, dict) or not isinstance(content.get("models"), dict):
            raise ValueError("it has no mapping 'models' of names to prices")
        if content.get("currency", "USD") != "USD":
            raise ValueError("prices are in USD")
        return {
            str(name): _price(name, entry, content) for name, entry in content["models"].items()
        }
    except OSError as error:
        raise InputError(f"prices {path}: can't be read ({error.strerror})") from None
    except (yaml.YAMLError, UnicodeDecodeError):
        raise InputError(f"prices {path}: is not YAML") from None
    except ValueError as error:
        raise InputError(f"prices {path}: {error}; {PRICES} shows the form") from None


def _price(name: object, entry: Any, content: Mapping[str, Any]) -> Price:
    if not isinstance(entry, dict) or not {"input", "output"} <= set(entry) <= _FIELDS:
        raise ValueError(
            f"{name}: a price has input and output, and may have cached_input and batch"
        )
    figures = [entry["input"], entry.get("cached_input", entry["input"]), entry["output"]]
    figures.append(entry.get("batch", content.get("batch", 1.0)))
    for figure in figures:
        if isinstance(figure, bool) or not isinstance(figure, (int, float)):
            raise ValueError(f"{name}: a price is a number of US dollars per million tokens")
        if not math.isfinite(figure) or figure < 0:
            raise ValueError(f"{name}: a price is not negative")
    read, read_before, written, batch = map(float, figures)
    if batch > 1:
        raise ValueError(f"{name}: batch is a part of the price, 1 at most")
    source, as_of = (str(entry.get(field, content.get(field, ""))) for field in ("source", "as_of"))
    return Price(read, read_before, written, source, as_of, batch)
