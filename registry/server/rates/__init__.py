"""How often one address, and all clients together, may do what costs: counted, and refused if a setting says so."""
