"""The graphical lasso: the problem, its solution with a certificate, and when there is one."""
