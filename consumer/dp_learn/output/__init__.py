"""The researcher's results: messages, the folder of files, and the picture."""
