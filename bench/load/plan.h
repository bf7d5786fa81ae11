/* The files that say what to send, as bench/load/plan.py writes them: little-endian, made for this machine alone.
 *
 * lookups:        u32 count, then count times: u32 length, u32 opaque_at, the frame
 * registrations:  u32 brokers, u32 variants, then for each broker each variant: u32 length (0: it has
 *                 none), u32 opaque_at, u32 counter_at (0: its body never changes), u32 crc_at, u32 crc_prefix, u32 crc_suffix,
 *                 u32 matrix[32], the frame
 */
#ifndef PLAN_H
#define PLAN_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "wire.h"

typedef struct {
    uint8_t *bytes;
    uint32_t length, opaque_at;
    uint32_t counter_at, crc_at, crc_prefix, crc_suffix, matrix[32];
} request;

typedef struct {
    uint32_t lookups, brokers, variants;
    request *lookup;       /* [lookups] */
    request *registration; /* [brokers * variants] */
} plan;

static inline void die(const char *what, const char *about) {
    fprintf(stderr, "loadgen: %s: %s\n", what, about);
    exit(1);
}

static inline void *need(void *memory) {
    if (memory == NULL) die("out of memory", "make the plan smaller");
    return memory;
}

static inline void read_words(FILE *file, const char *path, uint32_t *words, size_t count) {
    if (fread(words, sizeof *words, count, file) != count) die("the file ends too early", path);
}

static inline void read_request(FILE *file, const char *path, request *r, int registration) {
    read_words(file, path, &r->length, 2);
    if (registration) read_words(file, path, &r->counter_at, 4 + 32);
    if (r->length == 0) return;
    if (r->length > MAX_FRAME || r->opaque_at + DIGITS > r->length) die("a frame that makes no sense", path);
    r->bytes = need(malloc(r->length));
    if (fread(r->bytes, 1, r->length, file) != r->length) die("the file ends too early", path);
}

static inline FILE *open_plan(const char *path) {
    FILE *file = fopen(path, "rb");
    if (file == NULL) die("cannot read", path);
    return file;
}

static inline void load_plan(plan *p, const char *lookups, const char *registrations) {
    if (strcmp(lookups, "-")) {
        FILE *file = open_plan(lookups);
        read_words(file, lookups, &p->lookups, 1);
        p->lookup = need(calloc(p->lookups ? p->lookups : 1, sizeof *p->lookup));
        for (uint32_t i = 0; i < p->lookups; i++) read_request(file, lookups, &p->lookup[i], 0);
        fclose(file);
    }
    if (strcmp(registrations, "-")) {
        FILE *file = open_plan(registrations);
        uint32_t words[2];
        read_words(file, registrations, words, 2);
        p->brokers = words[0], p->variants = words[1];
        size_t count = (size_t)p->brokers * p->variants;
        p->registration = need(calloc(count ? count : 1, sizeof *p->registration));
        for (size_t i = 0; i < count; i++) read_request(file, registrations, &p->registration[i], 1);
        fclose(file);
    }
}

/* Give a growing registration its next number, and its header the body's new CRC. */
static inline void set_counter(request *r, uint64_t counter) {
    if (r->counter_at == 0) return;
    uint8_t *digits = r->bytes + r->counter_at;
    write_digits(digits, counter);
    write_digits(r->bytes + r->crc_at, crc_around(r->crc_prefix, digits, r->matrix, r->crc_suffix) & 0x7FFFFFFF);
}

#endif
