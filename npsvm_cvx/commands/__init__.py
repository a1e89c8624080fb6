"""The commands of ``npsvm``, a module each: arguments in, text out.  None computes anything itself."""
