"""A random schedule of faults against real processes, and what must hold at every moment and after healing.

Which operations (``operations/``) produce the sequences that once broke mqregistry, by the rows of
the table in which they were collected; tests/mutants asks whether they are found again:

=== ================================================================================================================
A1  slow_load_while_kv_changes; tables_cannot_be_read_again_for_a_while; link_slow with stream_trimmed
A2  front_ends_paused_together, links_cut_together, while sweepers go on; reaped_while_nobody_hears
A3  many_topics_fall_silent, many_topics_overdue_at_once, many_topics_lose_their_connections; overdue_before_a_gap
A4  smallest_id_told_to_broken_listeners
A5  long_names
A6  lost_numbers_taken_again; redis_rolled_back with new_topics
A7  broker_falls_silent, of the three that share connections
A8  hiccup_while_kv_is_given_back, kv_is_given_back_late, who_knows_less_gives_back_first; flushall with script_cut
A9  drained_after_the_last_other_close; broker_reconnects with front_end_drained
A10 cluster_moved
A11 redis_paused_again_and_again
A12 bad_byte; trimmed_while_a_front_end_loads; stream_trimmed with front_end_killed
A13 attaching_fails_once; front_end_paused with script_cut at ``attach_channels``
A14 wall_clock_stepped_between_two_connections
A15 full_until_trimmed
A16 nobody_sweeps
A17 KV keys are deleted all the time, beside redis_rolled_back, flushall and links_cut_together
A18 lost_numbers_taken_again
A19 started_while_redis_is_away; front_end_killed, sweeper_restarted with redis_killed or redis_full
A20 redis_rolled_back, which loses what a failover loses; redis_away_while_nobody_writes; with Sentinel
    failovers_in_a_row, failover_with_losses, failover_planned
A21 succeeded_while_a_front_end_is_paused; front_end_paused with broker_crashes
A22 tables_cannot_be_read_again_for_a_while, and a change after it before the tables are read
A25 writes_while_redis_lacks_what_is_served
A26 writes_that_redis_loses; redis_rolled_back
A27 front_end_starts_on_an_emptied_redis; flushall with front_end_killed
A60 log_not_read; supervisor_paused
A61 supervisor_killed
=== ================================================================================================================
"""
