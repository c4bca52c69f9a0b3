"""The limits hold while an endpoint has every fault at once: retries count like other calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from transforms.llm.calls import CallClass, Caller
from transforms.llm.engine import engine
from transforms.llm.fake_endpoint.faults import FAULTS, FaultPlan
from transforms.llm.fake_endpoint.latency import lognormal
from transforms.llm.fake_endpoint.server import FakeEndpoint
from transforms.llm.fake_endpoint.windows import RateLimits
from transforms.llm.prompts import Prompt
from transforms.llm.settings import EngineSettings

KEYS, IN_A_WINDOW, WINDOW = 800, 200, 2.0


def test_no_window_sees_more_amid_all_faults(
    prompt: Prompt, settings: Callable[..., EngineSettings]
) -> None:
    async def work(situation: str, caller: Caller) -> tuple[CallClass, str]:
        answer = await caller(prompt, {"situation": situation})
        return answer.call_class, answer.request

    with FakeEndpoint(
        latency=lognormal(0.03, 0.8),
        faults=FaultPlan(dict.fromkeys(FAULTS, 0.02), retry_after=0.1, slow=0.2),
        limits=RateLimits(requests=IN_A_WINDOW, seconds=WINDOW),
    ) as endpoint:
        given = settings(
            endpoint.base_url, rpm=IN_A_WINDOW, rate_window=WINDOW, rate_margin=0.5, timeout=1.0
        )
        counts = Counter[str]()
        answers = (
            engine(given)
            .submit(0, [f"situation {n}" for n in range(KEYS)], work, counts)
            .result(240)
        )
        assert endpoint.requests == counts["calls_sent"] > 4 * IN_A_WINDOW
        assert 0 < endpoint.windows.seen[0].greatest <= IN_A_WINDOW
        assert endpoint.met["limit"] == 0
        assert set(endpoint.met) == set(FAULTS)
    assert len({request for _, request in answers}) == KEYS
    classes = Counter(call_class for call_class, _ in answers)
    assert classes[CallClass.OK] > 0.9 * KEYS
    assert classes[CallClass.REFUSED] > 0
    assert classes[CallClass.CONTENT_FILTER] > 0
