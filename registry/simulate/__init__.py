"""Simulates a day of a cluster: sends real requests to name servers, as brokers that register, beat, flap, hang, leave.

:mod:`plan` makes the plan of a day from a seed, :mod:`run` plays it against real name servers.
"""
