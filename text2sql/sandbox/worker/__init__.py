"""The worker process: it opens a database read-only and runs one query at a time."""
