"""What several kinds need: columns, selectors, templates' labels. Imports no kind."""
