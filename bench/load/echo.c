/* echo PORT BODY_BYTES [BODIES]: answers every frame with code 0 and a body of that many bytes.
 *
 * What a server on epoll can do at most on one core when it has nothing to think about: no table, no route, no
 * parser but a search for the opaque. One write answers everything that one read brought.
 *
 * One body (the default) never leaves the processor's caches. With more, each answer is another one of so many: what
 * is left when the answers have to come from memory, as those of different topics do, still without looking one up.
 */
#include "wire.h"

#include "connection.h"

static uint8_t **replies;
static uint32_t bodies, turn, reply_length, reply_opaque_at;

static uint8_t *make_reply(uint32_t body_length) {
    static const char head[] = "{\"code\":0,\"flag\":1,\"language\":\"JAVA\",\"opaque\":";
    static const char tail[] = ",\"serializeTypeCurrentRPC\":\"JSON\",\"version\":479}";
    uint32_t header_length = sizeof head - 1 + DIGITS + sizeof tail - 1;
    reply_length = 8 + header_length + body_length;
    uint8_t *reply = need(malloc(reply_length));
    write_u32(reply, reply_length - 4);
    write_u32(reply + 4, header_length);
    memcpy(reply + 8, head, sizeof head - 1);
    reply_opaque_at = 8 + sizeof head - 1;
    memcpy(reply + reply_opaque_at + DIGITS, tail, sizeof tail - 1);
    memset(reply + 8 + header_length, 'x', body_length);
    return reply;
}

static const char *take(connection *c, const answer *a) {
    turn = turn * 1664525u + 1013904223u; /* no order that a processor could foresee */
    append(&c->out, replies[(turn >> 8) % bodies], reply_length);
    write_digits(c->out.bytes + c->out.length - reply_length + reply_opaque_at, (uint64_t)a->opaque);
    return NULL;
}

static const char *serve(connection *c) {
    const char *error = read_answers(c, take);
    return error ? error : flush_connection(c);
}

int main(int argc, char **argv) {
    if (argc < 3 || argc > 4) die("usage", "echo PORT BODY_BYTES [BODIES]");
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[1]))};
    struct epoll_event events[256];
    int yes = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(listener, (struct sockaddr *)&here, sizeof here) || listen(listener, 4096)) die("listen", strerror(errno));
    bodies = argc == 4 ? (uint32_t)atoi(argv[3]) : 1;
    if (!bodies) die("usage", "BODIES is at least 1");
    replies = need(malloc(bodies * sizeof *replies));
    for (uint32_t i = 0; i < bodies; i++) replies[i] = make_reply((uint32_t)atoi(argv[2]));
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    connection door = {.fd = listener, .is_new = 1};
    watch(&door, 0);
    for (;;) {
        int ready = epoll_wait(epoll_fd, events, 256, -1);
        for (int i = 0; i < ready; i++) {
            connection *c = events[i].data.ptr;
            if (c == &door) {
                connection *new = need(calloc(1, sizeof *new));
                new->fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
                if (new->fd < 0) {
                    free(new);
                    continue;
                }
                setsockopt(new->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
                new->is_new = 1;
                watch(new, 0);
            } else if ((events[i].events & EPOLLIN ? serve(c) : flush_connection(c)) != NULL) {
                close_connection(c);
                free(c);
            }
        }
    }
}
