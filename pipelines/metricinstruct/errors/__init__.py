"""Error analyses: one record per error, its forms, its place in the output, its suggested fix."""
