"""Where a number comes from: the chain from an answer or an accuracy to its data and its code."""
