"""Seeds: from the rows of a source's files to the selected seeds of a dataset."""
