"""ProsocialDialog: unsafe utterances answered along social norms, voted on by three annotators."""
