"""The commands of dp-publish, and in `messages` what they say."""
