"""Gold queries: running them, and finding those whose answer the data does not determine."""
