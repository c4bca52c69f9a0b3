"""bespokelabs-curator: an LLM with a response format, on its OpenAI backend.

The backend asks tiktoken for an encoding when it is made, which is fetched over the network the
first time; without one curator stops there, whatever its parameters say. litellm, which curator
depends on, has that encoding in its package: pointing tiktoken's cache there, as litellm does for
itself, is what curator's users can do. Its own limit of 200 requests a minute, where the endpoint
tells none, is lifted.
"""

from __future__ import annotations

import importlib.util
import json
import os
from pathlib import Path
from typing import Any, Literal

from peers.work import Row, Task, measure

litellm = importlib.util.find_spec("litellm")
if litellm is not None and litellm.origin is not None:
    encodings = Path(litellm.origin).parent / "litellm_core_utils" / "tokenizers"
    os.environ.setdefault("TIKTOKEN_CACHE_DIR", str(encodings))
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
os.environ["CURATOR_DISABLE_CACHE"] = "true"
os.environ["CURATOR_DISABLE_RICH_DISPLAY"] = "1"
os.environ["TELEMETRY_ENABLED"] = "0"
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["OPENAI_API_KEY"] = "none"

from bespokelabs import curator  # noqa: E402 - reads the variables above
from pydantic import BaseModel, ConfigDict, Field  # noqa: E402

UNLIMITED = 1_000_000_000


class Utterance(BaseModel):
    """The answer, as the requests' schema describes it."""

    model_config = ConfigDict(extra="forbid")
    utterance: str = Field(min_length=1, max_length=300)
    tone: Literal["calm", "tense"]


class Writer(curator.LLM):  # type: ignore[misc] # installed in an environment of its own
    """Rows with messages to rows with answers."""

    response_format = Utterance

    def prompt(self, row: dict[str, Any]) -> Any:
        """Return the row's messages."""
        return json.loads(row["messages"])

    def parse(self, row: dict[str, Any], response: Utterance) -> dict[str, Any]:
        """Return the answer with the row's number."""
        return {"number": row["number"], "text": response.model_dump_json()}


def make_calls(task: Task) -> list[Row]:
    """Make the calls; what failed for good raises, as is curator's default."""
    first = task.requests[0].body
    writer = Writer(
        model_name=first["model"],
        backend="openai",
        generation_params={name: first[name] for name in ("temperature", "max_tokens")},
        backend_params={
            "base_url": task.base_url,
            "max_concurrent_requests": task.in_flight,
            "max_requests_per_minute": UNLIMITED,
            "max_tokens_per_minute": UNLIMITED,
        },
    )
    rows = [
        {"number": each.number, "messages": json.dumps(each.body["messages"])}
        for each in task.requests
    ]
    dataset = writer(rows, working_dir=task.directory).dataset
    return [Row(each["number"], text=each["text"]) for each in dataset]


if __name__ == "__main__":
    measure(make_calls)
