"""The ground floor: errors, quoting, rounding, memory, interrupts, kernels, the digest of the code."""
