"""The embedded model: weights from packages, served by llama.cpp on loopback."""
