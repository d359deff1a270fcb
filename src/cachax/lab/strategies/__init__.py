"""One approach to caching in each file. A new file here is a new row in the lab."""
