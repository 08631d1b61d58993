"""What a workload costs on a device: training steps, timing, metering, and the log that keeps the results.

In comes a workload as plain data; out comes a record (`records`). `devices` run workloads, `meters` read joules,
`training_step` is the step that is really trained.
"""
