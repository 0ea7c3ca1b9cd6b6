"""Checking gold queries: whether they run, and what makes their result doubtful."""
