"""An OpenAI-compatible endpoint on loopback that counts, waits, limits and fails as it is told."""
