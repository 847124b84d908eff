"""Noise on rows: the mechanism, its calibration and guarantee, and private bounds."""
