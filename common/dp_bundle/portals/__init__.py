"""A release as portals and their tools read it, and folders that are staged for them."""
