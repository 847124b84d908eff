"""Places where named bytes lie: a local folder, an object store, or a web server that is only read."""
