"""What assets of several stages share."""
