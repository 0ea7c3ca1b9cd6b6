"""Pre-training of the pocket policy on synthetic traces."""
