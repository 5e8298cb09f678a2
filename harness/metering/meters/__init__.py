"""One file per meter, with the source that describes it in a file if it has one."""
