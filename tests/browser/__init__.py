"""Tests of the UI, in a browser: a package, so that what they share ends with them."""
