"""Jobs on a Flink cluster, by its REST interface: what Beam's job service can't do.

Cancelling by Beam's job service leaves a job on a cluster running (measured with Beam 2.70: it went
on making calls to its end), and it knows of no jobs but those it was given itself.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any

from transforms.llm.settings import is_loopback

_OVER = frozenset({"FINISHED", "CANCELED", "FAILED"})


def running_jobs(master: str, name: str, seconds: float = 10.0) -> list[str]:
    """Return the ids of the jobs called ``name`` that are not over on Flink at ``master``.

    Raises:
        OSError: no Flink answers there.
    """
    jobs: Sequence[Mapping[str, Any]] = _ask(master, "/jobs/overview", "GET", seconds)["jobs"]
    return [job["jid"] for job in jobs if job["name"] == name and job["state"] not in _OVER]


def cancel_jobs(master: str, name: str, seconds: float = 10.0) -> None:
    """Cancel the jobs called ``name`` on Flink at ``master``.

    Raises:
        OSError: no Flink answers there.
    """
    for job in running_jobs(master, name, seconds):
        _ask(master, f"/jobs/{job}?mode=cancel", "PATCH", seconds)


def _ask(master: str, path: str, method: str, seconds: float) -> Any:
    url = master if "://" in master else f"http://{master}"
    request = urllib.request.Request(url.rstrip("/") + path, method=method)
    # Proxies are for the world outside, not for loopback.
    opener = urllib.request.build_opener(
        *([urllib.request.ProxyHandler({})] if is_loopback(url) else [])
    )
    try:
        with opener.open(request, timeout=seconds) as response:
            return json.load(response)
    except ValueError as error:
        raise OSError(f"{master} is no Flink") from error
