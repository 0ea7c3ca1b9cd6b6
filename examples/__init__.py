"""Runnable examples; the documentation in ``docs/`` shows them."""
