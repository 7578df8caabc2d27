"""What a verb does, one file a verb: call the pipeline and the search, never each other."""
