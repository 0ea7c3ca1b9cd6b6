"""Let an agent answer questions on SQLite databases safely, and judge its answers exactly."""

__version__ = "0.1.0"
