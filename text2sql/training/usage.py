"""How the programs are called that other programs start: ``python -m MODULE ARGUMENTS``."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def misuse(arguments: Sequence[str], module: str, *names: str) -> int | None:
    """Say how a program is called where that is asked for, or where its arguments do not fit.

    Returns the exit status then, and None where all is well. A last name that ends with ``...``
    stands for one argument and more, in brackets for any number.
    """
    usage = f"usage: python -m {module} {' '.join(names)}"
    if list(arguments[:1]) in (["-h"], ["--help"]):
        print(usage)
        return 0
    least = sum(not name.startswith("[") for name in names)
    most = None if names[-1].rstrip("]").endswith("...") else len(names)
    if len(arguments) >= least and (most is None or len(arguments) <= most):
        return None
    print(usage, file=sys.stderr)
    return 2
