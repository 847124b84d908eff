"""Accidents on purpose: kills, interrupts, losses of power, odd commands, crowds (`python -m tests.accidents`)."""
