"""MetricInstruct: system outputs and references with error analyses, as TIGERScore was trained on."""
