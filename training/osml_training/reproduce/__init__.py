"""Everything that is made of the virtual node, made again: catalog, profiles, data sets, models, figures, pages."""
