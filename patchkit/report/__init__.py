"""What people and programs read: text, JSON, JUnit, Markdown and HTML, as pure functions."""
