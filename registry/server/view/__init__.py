"""What one worker knows of the route tables: the view, its listeners, and the loops that keep it equal to Redis."""
