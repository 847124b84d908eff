"""The debiased covariance: moments of the noisy rows or a released matrix, their errors, and how sources are pooled."""
