"""What one address, and all clients together, may open and how often do: counted, and refused if a setting says so."""
