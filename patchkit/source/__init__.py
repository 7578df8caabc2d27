"""Recipe → tree: git upstreams and package releases as commits with facts."""
