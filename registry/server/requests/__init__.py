"""What each request code does: reads from the view, writes through Lua scripts."""
