"""A trained network as an ONNX graph and as the folder that is shipped."""
