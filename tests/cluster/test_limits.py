"""A job's limits on two TaskManagers, one of which is killed: rates, calls and money hold."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from runner_configs.flink.cluster import running_cluster
from tests.cluster.conftest import JARS
from tests.cluster.runs import ledger, started
from transforms.llm.fake_endpoint.latency import constant
from transforms.llm.fake_endpoint.server import FakeEndpoint
from transforms.llm.fake_endpoint.windows import RateLimits

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

IN_FLIGHT, RPM, CALLS, DOLLARS = 4, 480, 420, 2.5
#: US dollars for a million tokens, whichever.
PRICE = 10.0
PRICES = f"models: {{fake: {{input: {PRICE}, output: {PRICE}, source: made up}}}}\n"


@pytest.mark.parametrize("bound", ["calls", "cost"])
def test_rates_and_budgets_hold_though_a_task_manager_dies(bound: str, tmp_path: Path) -> None:
    prices, output = tmp_path / "prices.yaml", tmp_path / "output"
    prices.write_text(PRICES)
    options = ["--rpm", str(RPM), "--lanes", "2", "--prices", str(prices)]
    options += ["--max-calls", str(CALLS)] if bound == "calls" else ["--max-cost", str(DOLLARS)]
    with (
        FakeEndpoint(limits=RateLimits(seconds=60.0), latency=constant(0.2)) as endpoint,
        running_cluster(tmp_path / "flink", 2, JARS) as cluster,
    ):
        with started(endpoint, output, cluster, IN_FLIGHT, *options) as run:
            while endpoint.answered < 100:
                assert run.poll() is None
                time.sleep(0.01)
            cluster.kill("taskmanager-1")
            before = endpoint.requests
            cluster.start_task_manager()
            _, told = run.communicate(timeout=600)
        assert run.returncode == 0, told.decode()
        made = endpoint.requests
        spent = (endpoint.prompt_tokens + endpoint.completion_tokens) * PRICE / 1e6
        assert made > before + 50
        # Lanes that were taken over, and those of the worker that lives, in every minute together.
        assert endpoint.windows.seen[0].greatest <= RPM
    # What the dead had leased and not spent is lost: some calls, or the most that those which had
    # passed the budget by then could have cost.
    if bound == "calls":
        assert 0.8 * CALLS < made <= CALLS
    else:
        assert 0.4 * DOLLARS < spent <= DOLLARS
    stages = ledger(output / "prosocial" / "v0001")["stages"]
    assert stages["dialogues"]["reasons"]["waiting"].keys() == {"budget"}
    assert not (output / "prosocial" / "work").exists()
