"""The ledger: what was spent on each dataset, and its budgets."""
