"""What the commands of `osml train` do, without their command lines."""
