"""The steps of the two-round release, each with its sensitivity, cost and exact law."""
