"""Package: files, manifests, claims and code that are missing, changed or contradict the logs."""
