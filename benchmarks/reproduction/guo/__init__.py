"""Guo, Wu, Weng, Liao & Chen (2025), Graph structure learning with privacy guarantees for open graph data."""
