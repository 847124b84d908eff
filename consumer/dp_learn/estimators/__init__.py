"""Estimators in scikit-learn's conventions: `fit` validates, debiases, solves and stores what it learned."""
