"""A site of static pages, made of specifications and of results."""
