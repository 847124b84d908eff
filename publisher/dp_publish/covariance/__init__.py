"""The covariance mechanisms: second moments in, noisy second moments out.

`scaling` says where rows are put, `second_moments` sums their products exactly, `sensitivity` says how far one row
moves the sum, and each mechanism has a module: `gaussian` (with SULQ), `laplace`, `wishart`, `eigenvectors` (with
Kapralov & Talwar's; `directions`, `spectrum`, `precise_normals` and `fixed_point` are its exact arithmetic, `bingham`
is the same in floating point, for estimates). `choice` picks one; `unsound` holds what the literature offers and must
not be released. The way back to mean and covariance is `dp_bundle.data.recovery`.
"""
