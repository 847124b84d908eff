"""The commands of dp-learn."""
