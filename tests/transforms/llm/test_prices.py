"""Prices: our file, the user's over it, and what calls cost by them."""

from __future__ import annotations

from pathlib import Path

import pytest

from transforms.errors import InputError
from transforms.llm.prices import NOTHING, PRICES, load_prices, price_of


def test_every_price_of_ours_has_a_source_and_a_date() -> None:
    prices = load_prices(PRICES)
    assert "gpt-4o-mini" in prices
    for model, price in prices.items():
        assert 0 < price.cached_input <= price.input < price.output, model
        assert price.source, model
        assert price.as_of, model


def test_cached_input_is_priced_apart() -> None:
    price = price_of("gpt-4o")
    assert price is not None
    assert price.cost(1_000_000, 0) == 2.5
    assert price.cost(1_000_000, 0, cached=1_000_000) == 1.25
    assert price.cost(0, 100_000) == 1.0


@pytest.mark.parametrize(
    ("model", "known"),
    [
        ("gpt-4o-mini", True),
        ("gpt-4o-mini-2024-07-18", True),
        ("gpt-4o-mini-tuned", False),  # another model, which may cost anything
        ("gpt-4o-minimal", False),
        ("my-model", False),
    ],
)
def test_a_price_is_of_a_model_and_of_its_dated_snapshots(model: str, known: bool) -> None:
    assert (price_of(model) is not None) is known


def test_the_users_file_goes_before_ours(tmp_path: Path) -> None:
    file = tmp_path / "prices.yaml"
    file.write_text(
        "source: my contract\nas_of: 2026-11-01\nmodels:\n"
        "  gpt-4o: {input: 1, output: 2}\n"
        "  served-here: {input: 0, output: 0, source: our own machine}\n"
    )
    contract, own = price_of("gpt-4o", str(file)), price_of("served-here", str(file))
    assert contract is not None
    assert own is not None
    assert (contract.input, contract.cached_input, contract.output) == (1.0, 1.0, 2.0)
    assert (contract.source, contract.as_of) == ("my contract", "2026-11-01")
    assert own.cost(10**9, 10**9) == 0
    assert own.source == "our own machine"
    assert price_of("gpt-4.1", str(file)) == price_of("gpt-4.1")


def test_a_batch_costs_a_part_that_the_file_or_the_model_names(tmp_path: Path) -> None:
    ours = price_of("gpt-4o")
    assert ours is not None
    batch = ours.by_batch()
    assert batch.cost(1000, 100, 10) == pytest.approx(ours.cost(1000, 100, 10) / 2)
    assert batch.source.endswith("in batches 0.5 of it")
    assert batch.by_batch().cost(1000, 100) == batch.cost(1000, 100)
    file = tmp_path / "prices.yaml"
    file.write_text(
        "models:\n  a: {input: 4, output: 8}\n  b: {input: 4, output: 8, batch: 0.25}\n"
    )
    for name, part in (("a", 1.0), ("b", 0.25)):
        price = price_of(name, str(file))
        assert price is not None
        assert price.by_batch().cost(1000, 1000) == pytest.approx(part * 0.012)


@pytest.mark.parametrize(
    "content",
    [
        "- a list",
        "models: {m: {input: 1, output: 2, batch: 1.5}}",
        "batch: half\nmodels: {m: {input: 1, output: 2}}",
        "models: [a]",
        "models: {m: 3}",
        "models: {m: {input: 1}}",
        "models: {m: {input: 1, output: 2, outputs: 3}}",
        "models: {m: {input: -1, output: 2}}",
        "models: {m: {input: .inf, output: 2}}",
        "models: {m: {input: yes, output: 2}}",
        "models: {m: {input: '1', output: 2}}",
        "currency: EUR\nmodels: {m: {input: 1, output: 2}}",
        "models: {",
    ],
)
def test_a_file_of_another_form_is_refused_by_name(tmp_path: Path, content: str) -> None:
    file = tmp_path / "prices.yaml"
    file.write_text(content)
    with pytest.raises(InputError, match=r"prices\.yaml"):
        price_of("m", str(file))


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="can't be read"):
        price_of("m", str(tmp_path / "none.yaml"))


def test_what_this_machine_serves_costs_nothing() -> None:
    assert NOTHING.cost(10**9, 10**9) == 0
