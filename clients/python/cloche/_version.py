"""The name and version that this client sends."""
VERSION = "0.1.0"
USER_AGENT = f"cloche-python/{VERSION}"
