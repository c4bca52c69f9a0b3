"""What calls are counted with before they are answered."""

from __future__ import annotations

from transforms.llm.admission import PendingCall
from transforms.llm.answers import Verdict
from transforms.llm.calls import CallClass
from transforms.llm.reservation import Reservation


def call(prompt: int, most: int = 500) -> PendingCall:
    return PendingCall("key", 0, 0, 0, 100, prompt, most, "fake")


def used(prompt: int, completion: int) -> Verdict:
    return Verdict(CallClass.OK, prompt_tokens=prompt, completion_tokens=completion)


def test_at_first_a_call_counts_with_all_that_it_may_have() -> None:
    assert Reservation().tokens(call(100)) == 600


def test_answers_that_stay_short_are_counted_as_such_in_the_end() -> None:
    reservation = Reservation()
    for number in range(19):
        reservation.observe(call(100), used(100, 40 + number))
    assert reservation.tokens(call(100)) == 600
    reservation.observe(call(100), used(100, 80))
    assert reservation.tokens(call(100)) == 100 + 100
    assert reservation.tokens(call(100, most=90)) == 190  # others with another bound
    reservation.observe(call(100), used(100, 500))
    assert reservation.tokens(call(100)) == 600


def test_prompts_are_counted_as_the_endpoint_counts_them_never_lower() -> None:
    reservation = Reservation()
    for prompt in (50, 100, 150, 200):
        reservation.observe(call(prompt), used(2 * prompt + 10, 20))
    assert reservation.tokens(call(120)) == 250 + 500
    fewer = Reservation()
    for prompt in (50, 100, 150, 200):
        fewer.observe(call(prompt), used(prompt // 2, 20))
    assert fewer.tokens(call(120)) == 120 + 500
