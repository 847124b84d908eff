"""A release attacked before it is made: made-up rows are published, and what a reader finds is judged.

`audit_rows` and `audit_covariance` publish made-up tables by the function that they are given, and judge the bundles by
what the policy asked for. No value of a private table is read, and nothing is spent: no module here can reach a ledger.
An audit refutes a claim, and never proves one.
"""
