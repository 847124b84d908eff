"""Bytes by name: files and folders that are whole or absent, members of a bundle, object stores and web servers."""
