"""A patch from outside: what it is, what is known of it, and where it goes in the library."""
