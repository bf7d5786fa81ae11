"""What name servers, registries and instants of the past differ in, and since when. Pure: others ask the sides."""
