"""Model calls: prompts, requests, the client, the cache of raw responses, and the engine."""
