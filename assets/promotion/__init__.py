"""The promotion gate and the champion."""
