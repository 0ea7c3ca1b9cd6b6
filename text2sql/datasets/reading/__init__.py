"""Reading questions, gold SQL and databases in BIRD and Spider layout."""
