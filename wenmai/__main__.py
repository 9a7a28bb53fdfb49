"""``python -m wenmai`` is the same as ``wenmai``: the command line, which may be interrupted while it is imported."""

import signal
import sys

__all__ = ["run"]


def run() -> int:
    """Runs the command line as a process of its own; returns the exit code."""
    stopping = (signal.SIGINT, signal.SIGTERM)
    try:
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, signal.default_int_handler)
        from wenmai.cli.main import main

        code = main()
        for number in stopping:
            signal.signal(number, signal.SIG_IGN)  # everything is done, but for ending
    except KeyboardInterrupt:  # when the command line could not say so itself
        for number in stopping:
            signal.signal(number, signal.SIG_IGN)
        print("wenmai: stopped", file=sys.stderr)
        return 130
    return code


if __name__ == "__main__":
    sys.exit(run())
