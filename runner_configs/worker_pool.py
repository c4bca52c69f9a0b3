"""A pool of Beam workers: ``remint-worker-pool``, one beside each TaskManager.

    remint-worker-pool --port 50000

A runner with ``--environment_type=EXTERNAL --environment_config=localhost:50000`` asks it for a
worker by number, and it starts ``remint-worker`` as that one. One pool for one TaskManager: all
TaskManagers number their workers alike, and a worker is ended when another of its number is asked
for.

Beam's own pool listens on all addresses of its machine, and stops a worker that prints much, since
it never reads what it prints. This one listens on loopback and lets workers print where it prints.
"""

from __future__ import annotations

import argparse
import logging
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn

PORT = 50000
#: A worker may take so long to end before it is killed.
SECONDS = 10.0

logger = logging.getLogger("remint.worker_pool")


class WorkerPool:
    """The workers of one TaskManager by number; the service of Beam's Fn API that starts them.

    Args:
        command: what a worker is started by, before its number and the address of what it is told.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self._command = tuple(command)
        self._workers: dict[str, subprocess.Popen[bytes]] = {}
        self._lock = threading.Lock()

    def StartWorker(self, request: Any, context: Any) -> Any:  # noqa: N802 - Beam's name
        """Start the worker of the request's number; one that there was of this number ends."""
        from apache_beam.portability.api import beam_fn_api_pb2

        number = request.worker_id
        arguments = [f"--id={number}", f"--provision_endpoint={request.provision_endpoint.url}"]
        with self._lock:
            self._end(number)
            try:
                self._workers[number] = subprocess.Popen(
                    [*self._command, *arguments], stdin=subprocess.DEVNULL
                )
            except OSError as error:
                return beam_fn_api_pb2.StartWorkerResponse(error=str(error))
        logger.info("started worker %s", number)
        return beam_fn_api_pb2.StartWorkerResponse()

    def StopWorker(self, request: Any, context: Any) -> Any:  # noqa: N802 - Beam's name
        """End the worker of the request's number."""
        from apache_beam.portability.api import beam_fn_api_pb2

        with self._lock:
            self._end(request.worker_id)
        return beam_fn_api_pb2.StopWorkerResponse()

    def close(self) -> None:
        """End all workers."""
        with self._lock:
            for number in list(self._workers):
                self._end(number)

    def _end(self, number: str) -> None:
        worker = self._workers.pop(number, None)
        if worker is None:
            return
        worker.terminate()
        try:
            worker.wait(SECONDS)
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()


def serve(pool: WorkerPool, host: str, port: int) -> tuple[Any, int]:
    """Return the server that offers ``pool``, which has started, and its port.

    Args:
        pool: the workers.
        host: the address to listen on.
        port: 0 for one that is free.

    Raises:
        RuntimeError: another program listens there.
    """
    import grpc
    from apache_beam.portability.api import beam_fn_api_pb2_grpc

    # With it a second pool on the same port would get every other worker.
    alone = [("grpc.so_reuseport", 0)]
    server = grpc.server(ThreadPoolExecutor(4), options=alone)
    beam_fn_api_pb2_grpc.add_BeamFnExternalWorkerPoolServicer_to_server(pool, server)
    taken = server.add_insecure_port(f"{host}:{port}")
    server.start()
    return server, taken


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until a signal ends the process, and the workers with it."""
    parser = argparse.ArgumentParser(prog="remint-worker-pool", description="Start Beam workers")
    parser.add_argument("--host", default="127.0.0.1", help="default 127.0.0.1")
    parser.add_argument("--port", type=int, default=PORT, help=f"default {PORT}")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    pool = WorkerPool([sys.executable, "-m", "runner_configs.worker"])
    try:
        server, port = serve(pool, options.host, options.port)
    except RuntimeError:
        sys.stderr.write(f"remint-worker-pool: {options.host}:{options.port} is taken\n")
        return 1
    signal.signal(signal.SIGTERM, _stop)
    logger.info("ready at %s:%d", options.host, port)
    try:
        server.wait_for_termination()
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    finally:
        server.stop(None)
        pool.close()
    return 0


def _stop(number: int, frame: object) -> NoReturn:
    raise SystemExit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
