"""MetricInstruct: outputs of systems, and damaged references, with analyses of their errors."""
