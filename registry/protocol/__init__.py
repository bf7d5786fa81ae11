"""The RocketMQ remoting protocol: bytes in, values out; no I/O, no clock, no state but the frame reader's."""
