"""The program ``text2sql``, also as ``python -m text2sql``."""

import signal


def main() -> None:
    """Load the command line and run it."""
    # Ctrl-C during the slow imports would print a traceback: let it end the program instead.
    by_exception = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if by_exception:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from text2sql.cli.main import main as run

    if by_exception:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


if __name__ == "__main__":
    main()
