"""The program ``text2sql``, also as ``python -m text2sql``.

It imports nothing that takes time before Ctrl-C would be told as everywhere else.
"""

import signal


def main() -> None:
    """Load the command line and run it; Ctrl-C while it loads ends it without a word."""
    by_exception = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if by_exception:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from text2sql.cli.main import main as run

    if by_exception:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


if __name__ == "__main__":
    main()
