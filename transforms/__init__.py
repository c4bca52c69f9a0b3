"""What the datasets share: reading, partitions, model calls, crowd joins, filters, publishing."""
