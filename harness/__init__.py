"""The referee of tta: runs a workload under rules, times it, and judges the log it leaves."""

__version__ = "0.1.0"
