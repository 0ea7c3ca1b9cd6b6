"""Starting, following and cleaning up runs."""
