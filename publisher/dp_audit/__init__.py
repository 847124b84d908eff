"""A release attacked before it is made: made-up tables are published, and what a reader finds is judged.

`planned_release.audit_planned_release` publishes them by the function that it is given, and judges the bundles by what
they state and what the policy asked for. No value of a private table is read, and nothing is spent: no module here can
reach a ledger. An audit refutes a claim, and never proves one.
"""
