"""The paper's variants and a few new losses, one file each.  The folder is the registry: a file here is available."""
