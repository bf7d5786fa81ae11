"""Changes of the tables as events, and the streams that carry them."""
