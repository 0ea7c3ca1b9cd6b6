"""Prediction files: reading, scoring, making and writing them."""
