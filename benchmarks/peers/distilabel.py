"""distilabel: a pipeline of one task, its input batch as large as calls may be in flight."""

from __future__ import annotations

import os

from peers.work import Row, Task, measure

os.environ["HF_HUB_OFFLINE"] = "1"

from distilabel.models import OpenAILLM
from distilabel.pipeline import Pipeline
from distilabel.steps import LoadDataFromDicts
from distilabel.steps.tasks import ChatGeneration


def make_calls(task: Task) -> list[Row]:
    """Make the calls in the processes of a pipeline."""
    first = task.requests[0].body
    data = [{"number": each.number, "messages": each.body["messages"]} for each in task.requests]
    with Pipeline(name="calls", cache_dir=task.directory) as pipeline:
        load = LoadDataFromDicts(data=data, batch_size=task.in_flight)
        generate = ChatGeneration(
            llm=OpenAILLM(
                model=first["model"],
                base_url=task.base_url,
                api_key="none",
                generation_kwargs={
                    "temperature": first["temperature"],
                    "max_new_tokens": first["max_tokens"],
                    "extra_body": {"response_format": first["response_format"]},
                },
            ),
            input_batch_size=task.in_flight,
        )
        load >> generate
    distiset = pipeline.run(use_cache=False)
    return [
        Row(each["number"], text=each["generation"])
        for each in distiset["default"]["train"].select_columns(["number", "generation"])
    ]


if __name__ == "__main__":
    measure(make_calls)
