"""Questions that are answered on a schedule, and the tables that keep the answers."""
