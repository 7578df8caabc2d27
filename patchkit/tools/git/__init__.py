"""Git: objects without a process, mirrors of upstreams, and which paths a tree may hold."""
