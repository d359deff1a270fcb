"""One question in each file. A new file here is a new column in the lab."""
