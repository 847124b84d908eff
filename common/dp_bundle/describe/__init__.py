"""A release in words for people, and in the descriptors that portals read."""
