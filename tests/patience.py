"""How long a test waits for what has to come: far longer than a busy machine takes. Waits end when it comes."""

PATIENCE = 120.0  # seconds
