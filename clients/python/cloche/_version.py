"""What this client calls itself."""
VERSION = "0.1.0"
USER_AGENT = f"cloche-python/{VERSION}"
