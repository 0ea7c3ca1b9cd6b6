"""What the agent reads about a database: tables, columns and their descriptions."""
