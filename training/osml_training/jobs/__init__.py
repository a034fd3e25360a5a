"""What the commands of `osml learn train` do, without their command lines."""
