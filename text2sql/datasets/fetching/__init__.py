"""Fetching datasets: downloads, archives, and the rules for what archives may contain."""
