"""The environment of a run: versions and machine."""

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import wenmai
from wenmai.training.passes import available_cores

__all__ = ["describe_environment", "peak_memory_bytes"]

_PACKAGES = ("numpy", "numba", "llvmlite", "safetensors", "scikit-learn")


def describe_environment() -> dict[str, Any]:
    """Returns versions, processor, cores and memory, as plain JSON values."""
    packages = {}
    for name in _PACKAGES:
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            continue
    return {
        "wenmai": wenmai.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processor": _processor(),
        "cores": available_cores(),
        "memory_bytes": _memory_bytes(),
        **packages,
    }


def peak_memory_bytes() -> int | None:
    """Returns the most memory this process has held (resident), or None if that is unknown."""
    try:  # Linux; getrusage would count the parent's memory from before exec too
        with open("/proc/self/status", encoding="ascii", errors="replace") as file:
            for line in file:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _processor() -> str:
    """The processor's name and its generation as compilers call it: one name may have different vector units."""
    from llvmlite.binding import get_host_cpu_name

    return f"{_processor_name()} ({get_host_cpu_name()})"


def _processor_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return None
