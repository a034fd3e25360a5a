"""osml: keeps latency-critical services inside their tail-latency targets on a shared server."""
