"""Runs that a command starts and follows, and what remains of runs that died."""
