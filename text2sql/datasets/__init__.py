"""Datasets in BIRD layout: reading them, and the pocket corpus that ships with the project."""
