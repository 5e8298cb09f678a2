"""Every published number traced back to the lines of its logs."""
