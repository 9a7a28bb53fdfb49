"""Several processes that train one model, as ``torchrun`` starts them, but forked: what takes time is imported once."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import wenmai
from wenmai.core.errors import WenmaiError

PROCESSES = 2


def together(folder: str, port: int, work: Callable[[int], object]) -> list[object]:
    """Runs ``work(rank)`` in two processes; returns the error of each, or none, and the seconds it took.

    A process that was killed has the name of the signal.

    For scripts of :func:`run_script`, which have begun no thread.
    """
    address = {"WORLD_SIZE": str(PROCESSES), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    children, began = [], time.monotonic()
    for rank in range(PROCESSES):
        child = os.fork()
        if child == 0:
            os.environ.update(address, RANK=str(rank), LOCAL_RANK=str(rank))
            told = None
            try:
                work(rank)
            except (WenmaiError, KeyboardInterrupt, ZeroDivisionError) as error:
                told = f"{type(error).__name__}: {error}"
            Path(folder, f"told-{rank}.json").write_text(json.dumps(told))
            os._exit(0)
        children.append(child)
    told_by: list[object] = []
    for rank, child in enumerate(children):
        _, status = os.waitpid(child, 0)
        killed = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else None
        told_by.append(killed or json.loads(Path(folder, f"told-{rank}.json").read_text()))
    return [*told_by, time.monotonic() - began]


def run_script(script: str, *arguments: str) -> object:
    """Runs a script in an interpreter of its own with one thread; returns the JSON of its last line."""
    made = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        env={**os.environ, "PYTHONPATH": str(Path(wenmai.__file__).parents[1]), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    return json.loads(made.stdout.splitlines()[-1])


def free_ports(number: int) -> list[int]:
    """Returns ports that nobody listens on."""
    opened = [socket.socket() for _ in range(number)]
    for one in opened:
        one.bind(("127.0.0.1", 0))
    ports: list[int] = [one.getsockname()[1] for one in opened]
    for one in opened:
        one.close()
    return ports
