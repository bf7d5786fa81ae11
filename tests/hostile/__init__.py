"""Input made to harm, over the wire: what it costs Redis, a front end's memory and other clients."""
