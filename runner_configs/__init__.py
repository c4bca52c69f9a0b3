"""Option files for the runners: pass one with ``--config``."""
