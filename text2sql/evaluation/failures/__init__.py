"""Where a policy fails: what SQLite said, and how a query differs from gold."""
