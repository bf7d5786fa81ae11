"""Simulates a day of a cluster: sends the requests of brokers that register, beat, flap, hang and leave.

:mod:`plan` makes the plan of a day from a seed, :mod:`run` plays it against real name servers.
"""
