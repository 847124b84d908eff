"""A release in words for people, and in the descriptors inside a bundle."""
