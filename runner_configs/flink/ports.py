"""The ports that the local cluster listens on."""

from __future__ import annotations

import contextlib
import socket
from dataclasses import dataclass, fields


@dataclass(frozen=True)
class Ports:
    """Where the cluster listens, on loopback alone."""

    rest: int = 8081
    rpc: int = 6123
    job: int = 8099
    artifact: int = 8098
    expansion: int = 8097
    pool: int = 50000

    @classmethod
    def free(cls) -> Ports:
        """Return ports that nothing listens on."""
        return cls(*free_ports(len(fields(cls))))


def free_ports(number: int) -> list[int]:
    """Return so many ports that nothing listens on."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def listens(port: int, host: str = "127.0.0.1") -> bool:
    """Return whether a program listens there."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((host, port)) == 0
