"""Publishing: shards, the version that holds them, its card, ledger, validation and manifest."""
