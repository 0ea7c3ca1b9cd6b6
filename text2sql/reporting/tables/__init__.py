"""The reporting tables in SQLite or PostgreSQL."""
