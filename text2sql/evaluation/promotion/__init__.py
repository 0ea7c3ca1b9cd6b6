"""The champion: which policy answers, why, and how that changes."""
