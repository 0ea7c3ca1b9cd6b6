"""Many rollouts: drawing, judging, storing and resuming them."""
