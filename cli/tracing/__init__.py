"""How ``pybernetes trace`` works: sources gather records, timeline turns them into hops, both apart from the printing."""
