"""The desk: a form in the publisher's own browser for what the commands do; it holds no rule of its own."""
