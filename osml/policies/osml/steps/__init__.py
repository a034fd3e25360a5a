"""The steps that change an allocation, one file each."""
