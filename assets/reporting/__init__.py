"""Scheduled questions and their answers."""
