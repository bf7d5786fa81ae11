"""What the streams tell of the last hours, read once and kept up to date from then on."""
