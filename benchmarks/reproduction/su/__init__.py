"""Su et al., Differentially private precision matrix estimation: a ridge and a graphical lasso."""
