"""The commands of dp-bundle, and what all commands share: options, answers, errors."""
