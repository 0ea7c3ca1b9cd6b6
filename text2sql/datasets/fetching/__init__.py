"""Getting a dataset: downloads, archives and the rules for what they may contain."""
