"""The authors' own trained models in our form, to be served beside ours and compared with the labels."""
