"""A portal: a static site of a folder of bundles, each with a privacy label, and a preview of it."""
