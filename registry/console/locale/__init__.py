"""The languages of the console: a catalogue for each, and which one a browser gets."""
