"""The decision server of osml: observations in, decisions out, metrics and a live page beside."""

__version__ = "0.1.0"
