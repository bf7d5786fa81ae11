"""Plays a cluster's day against name servers over the wire: brokers register, beat, flap, hang, leave.

:mod:`plan` makes the plan of a day from a seed, :mod:`run` plays it against real name servers.
"""
