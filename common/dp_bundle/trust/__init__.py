"""Trust: signatures, keys, the signers that a reader believes, and the releases seen before."""
