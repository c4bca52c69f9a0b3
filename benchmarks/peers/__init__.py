"""What remint's call engine is measured beside: other tools, each as its users would write it.

Modules that make calls are scripts (``python -m peers.curator``, see ``work``), run by the
interpreter of an environment of their own (``environments``), where nothing of remint is.
"""
