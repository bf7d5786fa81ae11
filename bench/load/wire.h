/* The little of the remoting protocol that the tools need: frames with a JSON header, and a CRC that follows a
 * counter in the body.
 *
 * A prepared request has its opaque as ten digits, so that another number fits in its place.
 */
#ifndef WIRE_H
#define WIRE_H

#include <stdint.h>
#include <string.h>

enum { DIGITS = 10, OPAQUE_FIRST = 1000000000, SLOT_BITS = 22, GENERATIONS = 256, MAX_FRAME = 64 << 20 };

static inline uint32_t read_u32(const uint8_t *at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static inline void write_u32(uint8_t *at, uint32_t value) {
    at[0] = (uint8_t)(value >> 24), at[1] = (uint8_t)(value >> 16), at[2] = (uint8_t)(value >> 8), at[3] = (uint8_t)value;
}

/* Ten digits, with leading zeros. */
static inline void write_digits(uint8_t *at, uint64_t value) {
    for (int i = DIGITS - 1; i >= 0; i--, value /= 10) at[i] = (uint8_t)('0' + value % 10);
}

/* The number behind `name` (with its quotes and colon) in a header; 0 when there is none. */
static inline int header_number(const uint8_t *header, uint32_t length, const char *name, uint32_t name_length,
                                int64_t *value) {
    const uint8_t *at = memmem(header, length, name, name_length), *end = header + length;
    if (at == NULL) return 0;
    int negative = 0;
    at += name_length;
    if (at < end && *at == '-') negative = 1, at++;
    *value = 0;
    while (at < end && *at >= '0' && *at <= '9') *value = *value * 10 + (*at++ - '0');
    if (negative) *value = -*value;
    return 1;
}
#define HEADER_NUMBER(header, length, name, value) header_number(header, length, name, sizeof(name) - 1, value)

static uint32_t crc_table[256];

static inline void crc_begin(void) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t value = i;
        for (int bit = 0; bit < 8; bit++) value = value & 1 ? value >> 1 ^ 0xEDB88320u : value >> 1;
        crc_table[i] = value;
    }
}

static inline uint32_t crc_continue(uint32_t crc, const uint8_t *bytes, uint32_t length) {
    crc = ~crc;
    while (length--) crc = crc_table[(crc ^ *bytes++) & 255] ^ crc >> 8;
    return ~crc;
}

/* CRC of prefix + digits + suffix, from what is known of prefix and suffix: `matrix` is what as many zero bytes as
 * the suffix has do to a CRC. */
static inline uint32_t crc_around(uint32_t crc_prefix, const uint8_t *digits, const uint32_t matrix[32],
                                  uint32_t crc_suffix) {
    uint32_t crc = crc_continue(crc_prefix, digits, DIGITS), shifted = 0;
    for (int bit = 0; bit < 32; bit++)
        if (crc >> bit & 1) shifted ^= matrix[bit];
    return shifted ^ crc_suffix;
}

#endif
