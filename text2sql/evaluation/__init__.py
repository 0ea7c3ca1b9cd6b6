"""Scores with their intervals, comparisons, predictions, the report and promotion."""
