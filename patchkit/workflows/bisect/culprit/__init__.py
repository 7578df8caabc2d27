"""What is said of the culprit besides its name: is the fault gone without it, and what makes the answer doubtful."""
