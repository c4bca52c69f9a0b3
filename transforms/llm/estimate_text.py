"""An estimate in words: what a dry run prints."""

from __future__ import annotations

from collections.abc import Sequence

from transforms.llm.estimates import Estimate, Time
from transforms.llm.spending import money
from transforms.llm.tokens import token_counter

#: How long a batch takes is the endpoint's affair, within the window that it promises.
_BATCHES_SAID = (
    "time: a batch is answered within a day; calls that depend on each other take one each"
)


def render_estimate(found: Estimate, *, by_batch: bool = False) -> str:
    """Return an estimate as text for a terminal; ``by_batch``: the calls go out in batches."""
    several = len({one.model for one in found.prompts}) > 1
    lines = [
        "dry run: nobody is called, nothing is written",
        f"{'prompt':<36}{'calls':>9}{'cached':>9}{'tokens in':>13}{'tokens out':>12}  cost",
        *(
            _line(
                f"{one.prompt} {one.model}" if several else one.prompt,
                one.calls,
                one.cached,
                one.prompt_tokens,
                one.completion_tokens,
                one.cost,
            )
            for one in found.prompts
        ),
        _line(
            "all",
            found.calls,
            found.cached,
            found.prompt_tokens,
            found.completion_tokens,
            found.cost,
        ),
    ]
    time = _BATCHES_SAID if by_batch else _time_said(found.time)
    lines += [*_tokens_said(found), _cost_said(found), time]
    return "\n".join(lines)


def _line(name: str, calls: int, cached: int, sent: int, received: int, cost: float | None) -> str:
    told = "unknown" if cost is None else money(cost)
    return f"{name:<36}{calls:>9,}{cached:>9,}{sent:>13,}{received:>12,}  {told}"


def _tokens_said(found: Estimate) -> list[str]:
    models = dict.fromkeys(one.model for one in found.prompts)
    observed = sum(one.observed for one in found.prompts)
    counters = "; ".join(f"{model}: {_counter_said(model)}" for model in models)
    lines = [f"tokens are counted by {counters}"] if counters else []
    if observed:
        lines.append(f"and corrected by what the endpoint reported of {observed:,} cached answers")
    words = {
        "cache": "like earlier answers to the same prompt",
        "examples": "like the prompt's examples",
        "schema": "made up from the answer's schema",
    }
    parts = [f"{count:,} {words[origin]}" for origin, count in found.origins.items()]
    if parts:
        lines.append(
            f"answers that are not there yet are taken to be {', '.join(parts)}; "
            "calls that depend on an answer, and repeats, may come out otherwise"
        )
    return lines


def _counter_said(model: str) -> str:
    counter = token_counter(model)
    return counter.name if counter.exact else f"{counter.name}, an estimate: no encoding is at hand"


def _cost_said(found: Estimate) -> str:
    unpriced = sorted({one.model for one in found.prompts if one.calls and one.cost is None})
    if found.cost is None:
        return f"cost: unknown, no price of {', '.join(unpriced)}; give one with --prices"
    called = dict.fromkeys(found.prices[one.model] for one in found.prompts if one.calls)
    sources = dict.fromkeys(
        f"{price.source}{', ' if price.as_of else ''}{price.as_of}" for price in called
    )
    said = f" ({'; '.join(sources)})" if sources else ""
    return f"cost: {money(found.cost)}{said}; less where the endpoint reads a prompt's head again"


def _time_said(time: Time) -> str:
    pace = time.pace
    what = {
        "concurrency": f"{pace.concurrency} calls in flight",
        "rpm": f"{pace.rpm or 0:,.0f} calls a minute",
        "tpm": f"{pace.tpm or 0:,.0f} tokens a minute",
    }[time.bound]
    return f"time: about {spoken(time.seconds)}, bound by {what}, at {time.latency:.1f} s a call"


def spoken(seconds: float) -> str:
    """Return a duration for reading."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def over_budget(found: Estimate, max_calls: int | None, max_cost: float | None) -> Sequence[str]:
    """Return a line for each bound that the estimate is above."""
    lines = []
    if max_calls is not None and found.calls > max_calls:
        lines.append(f"--max-calls {max_calls:,} would end the run before it is complete")
    if max_cost is not None and found.cost is not None and found.cost > max_cost:
        lines.append(f"--max-cost {max_cost:g} would end the run before it is complete")
    return lines
