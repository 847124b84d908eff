"""Accidents on purpose: kills, interrupts, losses of power, odd commands (`python -m tests.accidents`)."""
