"""The publisher's side: raw rows in, one signed bundle of noisy rows out."""

from dp_publish.policy import Policy
from dp_publish.release import Receipt, publish

__all__ = ["Policy", "Receipt", "publish"]
