"""Engines that run many tasks of one kind at once: the cores of this machine, or many machines."""
