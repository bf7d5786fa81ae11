/* A non-blocking connection: what is to be sent is kept until the socket takes it, what comes is cut into answers. */
#ifndef CONNECTION_H
#define CONNECTION_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "plan.h"

enum { CHUNK = 1 << 18 }; /* a long frame goes out in such pieces, so that it does not hold up the others */

typedef struct {
    uint8_t *bytes;
    size_t length, room;
} buffer;

typedef struct connection {
    int fd, broker; /* broker: which, or -1 for one that looks up */
    int wants_write, is_new;
    buffer out, in;
    size_t out_sent;
    uint32_t in_flight;
    /* of a broker: what it sends, straight from the plan */
    request *sending;
    size_t sending_sent;
} connection;

typedef struct {
    int64_t code, opaque;
    const uint8_t *header, *body;
    uint32_t header_length, body_length;
} answer;

static int epoll_fd = -1;
static uint64_t now_ns;
static buffer incoming; /* what the last read brought, behind what its connection had kept */

static inline uint64_t clock_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline void reserve(buffer *b, size_t more) {
    if (b->length + more <= b->room) return;
    b->room = (b->length + more) * 2;
    b->bytes = need(realloc(b->bytes, b->room));
}

static inline void append(buffer *b, const void *bytes, size_t length) {
    reserve(b, length);
    memcpy(b->bytes + b->length, bytes, length);
    b->length += length;
}

static inline void watch(connection *c, int write) {
    struct epoll_event event = {.events = EPOLLIN | (write ? EPOLLOUT : 0u), .data.ptr = c};
    if (c->is_new || write != c->wants_write)
        if (epoll_ctl(epoll_fd, c->is_new ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, c->fd, &event)) die("epoll", strerror(errno));
    c->is_new = 0, c->wants_write = write;
}

/* 0, or what went wrong */
static inline const char *open_connection(connection *c, int port, int broker) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int yes = 1;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    memset(c, 0, sizeof *c);
    c->broker = broker;
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&to, sizeof to)) return strerror(errno);
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    fcntl(c->fd, F_SETFL, O_NONBLOCK);
    c->is_new = 1;
    watch(c, 0);
    return NULL;
}

static inline void close_connection(connection *c) {
    if (c->fd > 0) close(c->fd);
    free(c->out.bytes);
    free(c->in.bytes);
    memset(c, 0, sizeof *c);
}

/* Send up to a chunk; what stays behind goes when the socket is writable. */
static inline const char *flush_connection(connection *c) {
    const uint8_t *bytes = c->sending ? c->sending->bytes + c->sending_sent : c->out.bytes + c->out_sent;
    size_t left = c->sending ? c->sending->length - c->sending_sent : c->out.length - c->out_sent;
    if (left) {
        ssize_t sent = send(c->fd, bytes, left < CHUNK ? left : CHUNK, MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN) return strerror(errno);
        if (sent < 0) sent = 0;
        left -= (size_t)sent;
        if (c->sending) c->sending_sent += (size_t)sent;
        else c->out_sent += (size_t)sent;
    }
    if (left == 0) {
        c->sending = NULL;
        c->out.length = c->out_sent = 0;
    }
    if (c->wants_write != (left > 0)) watch(c, left > 0);
    return NULL;
}

/* Read once, set `now_ns`; calls `take` for each whole frame. 0, or what went wrong. */
static inline const char *read_answers(connection *c, const char *(*take)(connection *, const answer *)) {
    incoming.length = 0;
    if (c->in.length) append(&incoming, c->in.bytes, c->in.length);
    reserve(&incoming, CHUNK);
    ssize_t got = recv(c->fd, incoming.bytes + incoming.length, CHUNK, 0);
    if (got == 0) return "the peer hung up";
    if (got < 0) return errno == EAGAIN ? NULL : strerror(errno);
    now_ns = clock_ns();
    const uint8_t *at = incoming.bytes, *end = at + incoming.length + got;
    while (end - at >= 8) {
        uint32_t length = read_u32(at), header_length = read_u32(at + 4) & 0xFFFFFF;
        if (length > MAX_FRAME || length < 4 + header_length) return "the peer sent what is no frame";
        if ((size_t)(end - at) < 4 + (size_t)length) break;
        answer a = {.code = -1, .opaque = -1, .header = at + 8, .header_length = header_length};
        a.body = a.header + header_length, a.body_length = length - 4 - header_length;
        if (!HEADER_NUMBER(a.header, header_length, "\"code\":", &a.code) ||
            !HEADER_NUMBER(a.header, header_length, "\"opaque\":", &a.opaque))
            return "the peer sent a header without code or opaque";
        const char *error = take(c, &a);
        if (error) return error;
        at += 4 + length;
    }
    c->in.length = 0;
    if (at < end) append(&c->in, at, (size_t)(end - at));
    return NULL;
}

#endif
