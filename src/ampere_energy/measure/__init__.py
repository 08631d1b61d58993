"""What it costs on a device: training steps, meters, devices, and the log of what was measured."""
