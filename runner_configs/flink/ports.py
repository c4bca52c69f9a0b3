"""The ports that the local cluster listens on."""

from __future__ import annotations

import socket
from dataclasses import dataclass


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
        sockets = [socket.socket() for _ in range(6)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        ports = cls(*(each.getsockname()[1] for each in sockets))
        for each in sockets:
            each.close()
        return ports


def listens(port: int, host: str = "127.0.0.1") -> bool:
    """Return whether a program listens there."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((host, port)) == 0
