"""What everything stands on: errors, quoting, rounding, memory, interrupts, kernels, the digest of the code."""
