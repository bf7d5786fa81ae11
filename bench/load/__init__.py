"""The load generator: C, because it must outrun every server that it measures, and what Python needs to steer it."""
