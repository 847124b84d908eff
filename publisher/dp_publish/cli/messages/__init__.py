"""Messages to the publisher: of a release and of the ledger, for a person and for a machine."""
