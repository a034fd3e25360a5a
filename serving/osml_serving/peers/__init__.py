"""Other servers of the same fleet: the dashboard shows nodes wherever they are answered."""
