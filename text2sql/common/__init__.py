"""Files, processes, locking and the artifact layout: what every room needs and no room owns."""
