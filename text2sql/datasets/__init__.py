"""Datasets: fetching, reading and storing them, their gold queries, and the pocket corpus."""
