"""A Flink cluster on this machine, for trying out and for tests."""
