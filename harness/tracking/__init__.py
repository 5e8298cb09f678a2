"""The MLflow mirror of a log."""
