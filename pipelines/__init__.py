"""One package per dataset: its options, its wiring, its own steps and prompts."""
