"""``python -m runner_configs.flink``: the local cluster, started and stopped."""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path

from runner_configs.flink.cluster import DIRECTORY, FlinkCluster
from runner_configs.flink.ports import Ports
from runner_configs.flink.processes import ClusterError

logger = logging.getLogger("remint.flink")


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return the process's exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m runner_configs.flink", description="A Flink cluster on this machine"
    )
    parser.add_argument("command", choices=("fetch", "up", "down", "status"))
    parser.add_argument("--directory", type=Path, default=DIRECTORY, help=f"default {DIRECTORY}")
    parser.add_argument("--task-managers", type=int, default=2, metavar="N")
    parser.add_argument(
        "--worker-pools",
        action="store_true",
        help="a worker pool beside each TaskManager, for --environment_type=EXTERNAL (Linux)",
    )
    parser.add_argument("--free-ports", action="store_true", help="not Flink's usual ports")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    cluster = FlinkCluster(
        options.directory,
        Ports.free() if options.free_ports else None,
        worker_pools=options.worker_pools,
    )
    try:
        if options.command == "fetch":
            cluster.fetch()
            return 0
        if options.command == "up":
            cluster.up(options.task_managers)
        elif options.command == "down":
            stopped = cluster.down()
            logger.info("stopped: %s", ", ".join(stopped) or "nothing, it was not running")
            return 0
    except ClusterError as error:
        logger.error("%s", error)
        return 1
    return _tell_status(cluster)


def _tell_status(cluster: FlinkCluster) -> int:
    processes, overview = cluster.running(), cluster.overview()
    if not overview:
        logger.info("no cluster runs in %s", cluster.directory)
        return 1
    logger.info(
        "%s; %s TaskManagers with %s slots; --job_endpoint=%s --flink_master=%s",
        ", ".join(f"{name} {process}" for name, process in processes.items()),
        overview["taskmanagers"],
        overview["slots-total"],
        cluster.job_endpoint,
        cluster.master,
    )
    if any(name.startswith("workerpool") for name in processes):
        logger.info("--environment_type=EXTERNAL --environment_config=%s", cluster.pool_address)
    return 0


if __name__ == "__main__":
    sys.exit(main())
