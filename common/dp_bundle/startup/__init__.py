"""What a command needs first: interrupts, imports on demand, kernels compiled before, the digest of its code."""
