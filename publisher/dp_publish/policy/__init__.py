"""The publisher's decisions: the policy, its file, and what they make of each column."""
