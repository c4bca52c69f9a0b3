"""``remint fake-endpoint``: an endpoint on this machine that costs nothing and fails as told."""

from __future__ import annotations

import argparse
import asyncio
import logging
import math
from collections.abc import Sequence

from pipelines.option_parsing import OptionParser
from pipelines.stopping import SIGNALS
from transforms.errors import OptionError
from transforms.llm.fake_endpoint.batches import Fate
from transforms.llm.fake_endpoint.faults import FAULTS, FaultPlan, parse_shares
from transforms.llm.fake_endpoint.latency import FORMS, latency
from transforms.llm.fake_endpoint.server import FakeEndpoint
from transforms.llm.fake_endpoint.windows import RateLimits

logger = logging.getLogger("remint.fake_endpoint")


def run(arguments: Sequence[str]) -> int:
    """Serve until a signal comes; the base URL is the first line printed."""
    options = _parser().parse_args(arguments)
    endpoint = FakeEndpoint(
        latency=latency(options.latency),
        faults=FaultPlan(parse_shares(options.fault), options.retry_after, options.slow),
        limits=RateLimits(options.rpm, options.tpm, options.window),
        models=tuple(options.model) or ("fake",),
        key=options.key,
        seed=options.seed,
    )
    endpoint.batches.seconds = options.batch_seconds
    if options.batch_share < 1:
        endpoint.batches.fate = lambda number: Fate("expired", options.batch_share)
    asyncio.run(_serve(endpoint, options.port))
    return 0


async def _serve(endpoint: FakeEndpoint, port: int) -> None:
    try:
        await endpoint.start(port)
    except OSError as error:
        raise OptionError(f"--port {port}: {error.strerror}; choose another, or 0") from None
    loop, told = asyncio.get_running_loop(), asyncio.Event()
    for signal in SIGNALS:
        loop.add_signal_handler(signal, told.set)
    print(endpoint.base_url, flush=True)
    await told.wait()
    await endpoint.stop()
    number = endpoint.requests
    logger.info("stopped after %d request%s", number, "" if number == 1 else "s")


def _number(least: float, most: float = math.inf, whole: bool = False) -> argparse._ActionType:
    def parse(text: str) -> float:
        number = int(text) if whole else float(text)
        if not least <= number <= most:
            raise ValueError
        return number

    parse.__name__ = "number"  # argparse: "invalid number value"
    return parse


def _parser() -> OptionParser:
    parser = OptionParser(
        prog="remint fake-endpoint",
        description=(
            "An OpenAI-compatible endpoint on loopback, to try a run on without paying and to see "
            "how it takes trouble. Answers fit the JSON schema that is asked for. It prints its "
            "base URL and serves until it is stopped (Ctrl-C); GET /admin/counts shows what came."
        ),
        allow_abbrev=False,
    )
    add = parser.add_argument
    port = _number(0, 65535, whole=True)
    count = _number(1, whole=True)
    seconds = _number(0)
    add("--port", type=port, default=0, help="default: any free one")
    add("--latency", default="constant:0", help=f"seconds before a reply: {FORMS}")
    add(
        "--fault",
        action="append",
        default=[],
        metavar="NAME=SHARE",
        help=f"share of requests that meet a fault, as often as needed: {', '.join(FAULTS)}, "
        "or all of them",
    )
    add("--rpm", type=count, metavar="N", help="requests a window it lets in")
    add("--tpm", type=count, metavar="N", help="tokens a window it lets in")
    add("--window", type=_number(0.001), default=60.0, metavar="SECONDS", help="default 60")
    add("--retry-after", type=seconds, default=1.0, metavar="SECONDS", help="of 429s, default 1")
    add("--slow", type=seconds, default=5.0, metavar="SECONDS", help="of slow answers, default 5")
    add(
        "--batch-seconds",
        type=seconds,
        default=0.0,
        metavar="SECONDS",
        help="an offline batch is in progress, default 0",
    )
    add(
        "--batch-share",
        type=_number(0, 1),
        default=1.0,
        metavar="SHARE",
        help="of a batch's requests that are answered before it expires; default all",
    )
    add("--model", action="append", default=[], metavar="NAME", help="listed; default fake")
    add("--key", help="API key it wants; default none")
    add("--seed", type=int, default=0, help="of faults and latencies, default 0")
    return parser
