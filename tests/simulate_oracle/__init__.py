"""What a simulated day must leave behind: in the registry's streams, and in the pipeline's gold tables.

``expect`` says what each operation of a plan does to the tables; ``observe`` reads the streams and compares them with
that; ``history`` and ``truth`` compute gold's figures from the streams, without the pipeline's own code and without
Spark; ``day`` plays a day and does all of this.
"""
