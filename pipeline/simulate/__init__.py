"""A cluster's day, played over the real wire: brokers that come, beat, flap, fall silent and go, clients that look up.

What happens is planned from a seed (:mod:`plan`), played against real name servers (:mod:`run`), and found again in
the registry's streams (:mod:`observe`); from there a plain model (:mod:`truth`) says which figures the pipeline must
come to. None of it uses the pipeline's own tables, nor Spark.
"""
