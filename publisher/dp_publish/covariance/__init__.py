"""Noisy second moments: scaling, sensitivity, the mechanisms and the choice among them, cost and guarantee."""
