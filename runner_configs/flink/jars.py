"""The jars that the local cluster is run from: Maven resolves them from ``pom.xml``."""

from __future__ import annotations

import logging
import shutil
import subprocess
from pathlib import Path

from runner_configs.flink.processes import ClusterError

POM = Path(__file__).parent / "pom.xml"
JAVA = 17

logger = logging.getLogger("remint.flink")


def fetch(folder: Path) -> None:
    """Fetch the jars into ``folder``, unless they are there.

    Raises:
        ClusterError: Java or Maven is missing, or the jars can't be had.
    """
    if shutil.which("java") is None:
        raise ClusterError(
            f"Flink needs Java {JAVA}, and there is no java on PATH; install it (apt-get install "
            f"openjdk-{JAVA}-jre-headless, brew install openjdk@{JAVA}) and try again"
        )
    done = folder / ".complete"
    if done.exists() and done.read_bytes() == POM.read_bytes():
        return
    maven = shutil.which("mvn")
    if maven is None:
        raise ClusterError(
            "Maven is needed to fetch Flink, and there is no mvn on PATH; install it "
            "(apt-get install maven, brew install maven) and try again"
        )
    logger.info("fetching Flink and Beam's job server (160 MB, once) into %s", folder)
    shutil.rmtree(folder, ignore_errors=True)
    command = [
        *(maven, "--quiet", "--batch-mode", "--file", str(POM)),
        *("dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={folder}"),
    ]
    fetched = subprocess.run(command, capture_output=True, text=True, check=False)
    if fetched.returncode != 0:
        said = (fetched.stdout + fetched.stderr).strip().splitlines()
        reason = next((line for line in said if "ERROR" in line), "no reason given")
        raise ClusterError(f"Maven could not fetch Flink: {reason}")
    done.write_bytes(POM.read_bytes())
