"""An example for Kubernetes: Flink by its operator, a worker pool in each TaskManager's pod."""
