"""What the agent reads of a database: tables, columns and their descriptions."""
