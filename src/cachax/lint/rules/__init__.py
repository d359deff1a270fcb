"""One rule in each file. A new file here is a new rule of `cachax lint`."""
