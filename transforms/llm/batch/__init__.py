"""Offline batches: the calls that are missing go out as files, and come back within a day."""
