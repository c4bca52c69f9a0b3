"""One S3 client per process, where Beam makes one for every operation.

Beam 2.77 builds a boto3 client anew for each object that is read, written, listed or looked at.
Measured on two cores that is 135 ms of CPU each time, against 1 ms for the request itself: a cache
that writes an object every half second would take a quarter of a core for nothing.
"""

from __future__ import annotations

import os
import threading
from functools import cache
from typing import Any

_OPTIONS = (
    "s3_access_key_id",
    "s3_secret_access_key",
    "s3_session_token",
    "s3_endpoint_url",
    "s3_region_name",
    "s3_api_version",
    "s3_verify",
    "s3_disable_ssl",
)
_clients: dict[int, Any] = {}
_lock = threading.Lock()


@cache
def share_clients() -> None:
    """Have Beam's S3 filesystem use one boto3 client per process and set of options.

    boto3's clients may be shared by threads, but not with forked children.
    """
    try:
        from apache_beam.io.aws import s3io
        from apache_beam.io.aws.clients.s3 import boto3_client
    except ImportError:
        return  # check_filesystem says that the extra is missing
    from apache_beam.options.pipeline_options import S3Options

    class SharedClient(boto3_client.Client):  # type: ignore[misc]
        """Beam's client, which has its own download stream, over the shared one of boto3."""

        def __init__(self, options: Any) -> None:
            view = options.view_as(S3Options)
            chosen = [str(getattr(view, name)) for name in _OPTIONS]
            # boto3 takes from the environment what the options leave out.
            told = sorted(item for item in os.environ.items() if item[0].startswith("AWS_"))
            name = hash((os.getpid(), *chosen, *told))
            with _lock:
                self.client = _clients.get(name)
                if self.client is None:
                    super().__init__(options)
                    _clients[name] = self.client
            self._download_request = self._download_stream = None
            self._download_pos = 0

    s3io.boto3_client.Client = SharedClient
