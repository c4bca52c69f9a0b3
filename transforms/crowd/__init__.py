"""What several annotators of one unit come to: agreement among them."""
