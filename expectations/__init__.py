"""Expectation suites as JSON, and the runner that holds shards and versions against them."""
