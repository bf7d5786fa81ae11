/* Latencies in nanoseconds in log-linear buckets, as HdrHistogram keeps them.
 *
 * Values below 256 have a bucket each; above, every power of two is cut into 128 equal ones, so a bucket is never
 * wider than 1/128 of its value. bench/load/histogram.py reads what histogram_print writes.
 */
#ifndef HISTOGRAM_H
#define HISTOGRAM_H

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { SUB_BITS = 7, SUB = 1 << SUB_BITS, BUCKETS = (64 - SUB_BITS) * SUB + SUB };

typedef struct {
    uint64_t count, max;
    uint64_t buckets[BUCKETS];
} histogram;

static inline int bucket_of(uint64_t value) {
    if (value < 2 * SUB) return (int)value;
    int shift = 63 - __builtin_clzll(value) - SUB_BITS;
    return shift * SUB + (int)(value >> shift);
}

/* The largest value of a bucket: what a percentile that falls into it is said to be. */
static inline uint64_t bucket_top(int bucket) {
    if (bucket < 2 * SUB) return (uint64_t)bucket;
    int shift = bucket / SUB - 1;
    return (((uint64_t)(bucket - shift * SUB) + 1) << shift) - 1;
}

static inline void histogram_add(histogram *h, uint64_t value) {
    h->buckets[bucket_of(value)]++;
    h->count++;
    if (value > h->max) h->max = value;
}

static inline void histogram_clear(histogram *h) { memset(h, 0, sizeof *h); }

static inline uint64_t histogram_percentile(const histogram *h, double percent) {
    if (h->count == 0) return 0;
    uint64_t rank = (uint64_t)(percent / 100.0 * (double)h->count + 0.999999), seen = 0;
    if (rank < 1) rank = 1;
    for (int i = 0; i < BUCKETS; i++)
        if ((seen += h->buckets[i]) >= rank) {
            uint64_t top = bucket_top(i);
            return top < h->max ? top : h->max;
        }
    return h->max;
}

/* {"count":..,"max":..,"buckets":[[bucket,count],..]}, empty buckets left out */
static inline void histogram_print(FILE *out, const histogram *h) {
    const char *comma = "";
    fprintf(out, "{\"count\":%" PRIu64 ",\"max\":%" PRIu64 ",\"buckets\":[", h->count, h->max);
    for (int i = 0; i < BUCKETS; i++)
        if (h->buckets[i]) {
            fprintf(out, "%s[%d,%" PRIu64 "]", comma, i, h->buckets[i]);
            comma = ",";
        }
    fputs("]}", out);
}

#endif
