"""The model in each of the other servers, as their manuals write it. MLServer and BentoML run outside of this project:
each in an environment of its own, whose packages are in the text file beside its program.
"""
