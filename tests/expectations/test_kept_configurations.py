from __future__ import annotations

import pytest

from expectations.kept_configurations import kept_configurations


@pytest.fixture(scope="module")
def expectation():
    import great_expectations.expectations as gxe

    return gxe.ExpectColumnValuesToBeInSet(column="label", value_set=["a", "b"])


def test_inside_the_block_a_configuration_is_worked_out_once(expectation):
    with kept_configurations():
        assert expectation.configuration is expectation.configuration


def test_outside_the_block_it_is_worked_out_anew(expectation):
    with kept_configurations():
        kept = expectation.configuration
    assert expectation.configuration is not kept
    assert expectation.configuration == kept


def test_what_was_kept_in_an_earlier_block_is_forgotten(expectation):
    with kept_configurations():
        before = expectation.configuration
    with kept_configurations():
        assert expectation.configuration is not before


def test_each_expectation_has_its_own(expectation):
    other = type(expectation)(column="other", value_set=["c"])
    with kept_configurations():
        assert expectation.configuration.kwargs["column"] == "label"
        assert other.configuration.kwargs["column"] == "other"
