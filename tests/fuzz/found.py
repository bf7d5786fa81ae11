"""What found something once: name -> the bytes. Never taken out again."""

FOUND: dict[str, bytes] = {}
