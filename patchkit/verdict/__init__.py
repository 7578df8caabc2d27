"""Environment and issue to verdict: probe, evidence, grade."""
