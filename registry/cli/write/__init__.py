"""Commands that change something: KV, configuration, brokers for drills, simulated clusters."""
