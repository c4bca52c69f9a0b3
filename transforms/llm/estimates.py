"""Estimates: what the calls of a run will come to, from the counts of its rehearsal.

Tokens are what was counted, corrected by what the endpoint reported of the answers that are in the
cache already: prompt by prompt where there are some, else by the model's ratio over all prompts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

from transforms.llm.prices import Price
from transforms.llm.rehearsal import OBSERVED, OBSERVED_COMPLETION, TYPICAL
from transforms.llm.statistics import (
    CACHED,
    COMPLETION_TOKENS,
    FURTHER_SAMPLES,
    PROMPT_TOKENS,
    SENT,
    by_prompt,
)
from transforms.llm.tokens import Calibration

#: How long a call takes where nothing tells: till its first word, and for each further one.
SECONDS_BEFORE_ANSWER, SECONDS_PER_TOKEN = 0.5, 0.02


@dataclass(frozen=True)
class PromptEstimate:
    """What a prompt's calls come to; ``cost`` (US dollars) is None where the price is unknown.

    ``observed`` is the number of cached answers that the tokens are corrected by.
    """

    prompt: str
    model: str
    calls: int
    cached: int
    prompt_tokens: int
    completion_tokens: int
    cost: float | None
    observed: int


@dataclass(frozen=True)
class Pace:
    """How fast calls may go: those in flight, calls and tokens a minute (None: no bound).

    ``latency`` is how many seconds one takes; None: as answers of its length usually take.
    """

    concurrency: int
    rpm: float | None = None
    tpm: float | None = None
    latency: float | None = None


@dataclass(frozen=True)
class Time:
    """How long calls take.

    Attributes:
        seconds: of all of them at ``pace``, at ``latency`` seconds each.
        bound: what bounds the pace: concurrency, rpm or tpm.
    """

    seconds: float
    bound: str
    pace: Pace
    latency: float


@dataclass(frozen=True)
class Estimate:
    """What a run's calls come to.

    Attributes:
        prompts: by prompt and model.
        origins: how many typical answers were taken from where.
        time: how long they take.
        prices: of the models, as far as they are known.
    """

    prompts: tuple[PromptEstimate, ...]
    origins: Mapping[str, int]
    time: Time
    prices: Mapping[str, Price]

    @property
    def calls(self) -> int:
        """Calls that are to be made."""
        return sum(one.calls for one in self.prompts)

    @property
    def cached(self) -> int:
        """Calls that the cache answers."""
        return sum(one.cached for one in self.prompts)

    @property
    def prompt_tokens(self) -> int:
        """Tokens that are sent."""
        return sum(one.prompt_tokens for one in self.prompts)

    @property
    def completion_tokens(self) -> int:
        """Tokens that are received."""
        return sum(one.completion_tokens for one in self.prompts)

    @property
    def cost(self) -> float | None:
        """US dollars, or None where a model that is called has no price."""
        costs = [one.cost for one in self.prompts if one.calls]
        known = [cost for cost in costs if cost is not None]
        return sum(known) if len(known) == len(costs) else None


def estimate(
    counts: Mapping[str, int], prices: Mapping[str, Price], paces: Mapping[tuple[str, ...], Pace]
) -> Estimate:
    """Return the estimate of what a rehearsal counted.

    Args:
        counts: of all partitions, see ``transforms.llm.rehearsal``.
        prices: of the models, as far as they are known.
        paces: how fast the run may go, by the models that have it in common.
    """
    named = by_prompt(counts)
    prompts = tuple(
        _prompt(label, each, _ratio(label, named), prices) for label, each in named.items()
    )
    times = [
        _time([one for one in prompts if one.model in models], pace)
        for models, pace in paces.items()
    ]
    origins = {
        name.removeprefix(TYPICAL): count
        for name, count in sorted(counts.items())
        if name.startswith(TYPICAL)
    }
    # They are called side by side: the run takes as long as the slowest.
    slowest = max(times, key=lambda time: time.seconds)
    return Estimate(prompts, origins, slowest, {**prices})


def _time(prompts: Sequence[PromptEstimate], pace: Pace) -> Time:
    calls = sum(one.calls for one in prompts)
    completion = sum(one.completion_tokens for one in prompts)
    tokens = completion + sum(one.prompt_tokens for one in prompts)
    latency = pace.latency
    if latency is None:
        latency = SECONDS_BEFORE_ANSWER + SECONDS_PER_TOKEN * (completion / calls if calls else 0)
    seconds = {"concurrency": calls * latency / pace.concurrency}
    for name, amount, limit in (("rpm", calls, pace.rpm), ("tpm", tokens, pace.tpm)):
        if limit is not None:
            seconds[name] = 60 * amount / limit
    bound = max(seconds, key=lambda name: seconds[name])
    return Time(seconds[bound], bound, pace, latency)


def _ratio(label: str, named: Mapping[str, Mapping[str, int]]) -> float:
    """Return tokens that the endpoint reports per token counted, over all prompts of a model."""
    model = label.partition(" ")[2]
    of_model = [_observed(each) for other, each in named.items() if other.endswith(f" {model}")]
    counted = sum(one.counted for one in of_model)
    return sum(one.reported for one in of_model) / counted if counted else 1.0


def _observed(counts: Mapping[str, int]) -> Calibration:
    return Calibration(
        **{one.name: counts.get(OBSERVED + one.name, 0) for one in fields(Calibration)}
    )


def _prompt(
    label: str, counts: Mapping[str, int], ratio: float, prices: Mapping[str, Price]
) -> PromptEstimate:
    prompt, _, model = label.partition(" ")
    calls, observed = counts.get(SENT, 0), _observed(counts)
    sent, received = float(counts.get(PROMPT_TOKENS, 0)), float(counts.get(COMPLETION_TOKENS, 0))
    if observed.calls:
        sent = observed.total(calls, counts.get(PROMPT_TOKENS, 0))
        samples = calls + counts.get(FURTHER_SAMPLES, 0)
        received = samples * counts.get(OBSERVED_COMPLETION, 0) / observed.calls
    else:
        sent *= ratio
    price = prices.get(model)
    return PromptEstimate(
        prompt=prompt,
        model=model,
        calls=calls,
        cached=counts.get(CACHED, 0),
        prompt_tokens=round(sent),
        completion_tokens=round(received),
        cost=None if price is None else price.cost(round(sent), round(received)),
        observed=observed.calls,
    )
