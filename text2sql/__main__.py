"""``python -m text2sql`` is the command ``text2sql``."""

from text2sql.cli import main

main()
