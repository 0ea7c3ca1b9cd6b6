"""Ingestion: archive, questions, databases, gold results and reward strength."""
