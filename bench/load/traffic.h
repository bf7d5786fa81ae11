/* What one run sends and what it makes of the answers: lookups and registrations, and the state that both share. */
#ifndef TRAFFIC_H
#define TRAFFIC_H

#include "connection.h"
#include "histogram.h"

typedef struct {
    double warmup_s, seconds; /* not measured, measured; seconds=0: until the brokers are done */
    double rate;              /* lookups a second, 0: closed loop */
    double reg_rate;          /* registrations a second, one broker after the other; 0: closed loop */
    double drain_s, stall_s;  /* longest wait for open answers at the end; for any answer at all */
    int connections, inflight;
    int asks;                 /* closed loop: stop when so many are asked and answered; 0: when the time is over */
    int sample;               /* compare one answer in so many; 0: none */
    int reg_parallel;         /* closed loop: so many brokers at once, each one registration in flight; 0: none */
    int reg_each;             /* so many registrations of each of them */
    int reg_first;            /* the first of those brokers */
    int reg_a, reg_b;         /* the variants that each broker sends in turn */
    int reg_keep;             /* 1: with the data version that it sent last, not the next one */
    char wrong[512];          /* where to put answers that differ from what is expected, "" for nowhere */
} options;

typedef struct {
    uint64_t due_ns;
    connection *connection;
    uint32_t topic;
    uint16_t generation;
    uint8_t busy;
} slot;

typedef struct {
    uint64_t asked, answered, lost, sampled, wrong;
    struct { int64_t code; uint64_t count; } codes[16];
    char remark[256];
    histogram latency;
} stream;

typedef struct {
    int32_t code;
    uint32_t length;
    uint8_t *body;
} expected_answer;

static plan the_plan;
static expected_answer *expected;
static int port;
static connection *brokers;

/* of one run */
static options opt;
static slot *slots;
static uint32_t *free_slots, free_count, slot_count;
static stream lookups, registrations;
static histogram second, late;
static FILE *series_out, *wrong_out;
static char *series_text;
static size_t series_length;
static int series_seconds, ask_once;
static uint32_t next_once;
static uint64_t measure_from, measure_to, last_answer, random_state = 88172645463325252u;
static uint64_t *reg_due, *reg_sent, reg_first_ns, reg_last_ns, *reg_counter, *reg_opaque;
static int reg_active, *reg_busy;
static double elapsed_s, used_s;
static char failure[512];

static uint32_t any_topic(void) {
    random_state ^= random_state << 13, random_state ^= random_state >> 7, random_state ^= random_state << 17;
    return (uint32_t)((random_state >> 32) * the_plan.lookups >> 32);
}

static void fail(const char *what) {
    if (!failure[0]) snprintf(failure, sizeof failure, "%s", what);
}

static void count_code(stream *s, const answer *a) {
    for (int i = 0; i < 16; i++)
        if (s->codes[i].count == 0 || s->codes[i].code == a->code) {
            s->codes[i].code = a->code, s->codes[i].count++;
            break;
        }
    if (a->code && !s->remark[0]) snprintf(s->remark, sizeof s->remark, "%.*s", (int)a->header_length, a->header);
}

static void end_second(void) {
    fprintf(series_out, "%s[%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "]", series_seconds++ ? "," : "",
            second.count, histogram_percentile(&second, 50), histogram_percentile(&second, 99), second.max);
    histogram_clear(&second);
}

/* lookups */

static void ask(uint32_t number, uint64_t due_ns) {
    slot *s = &slots[number];
    s->topic = ask_once ? next_once++ : any_topic();
    s->due_ns = due_ns;
    s->generation = (uint16_t)((s->generation + 1) % GENERATIONS);
    s->busy = 1;
    request *r = &the_plan.lookup[s->topic];
    buffer *out = &s->connection->out;
    append(out, r->bytes, r->length);
    write_digits(out->bytes + out->length - r->length + r->opaque_at,
                 OPAQUE_FIRST + ((uint64_t)s->generation << SLOT_BITS) + number);
    lookups.asked++;
}

/* Whether a closed loop goes on. */
static int may_ask(void) {
    if (ask_once) return next_once < the_plan.lookups;
    return opt.asks ? lookups.asked < (uint64_t)opt.asks : now_ns < measure_to;
}

static void keep_wrong(uint32_t topic, const answer *a) {
    if (wrong_out == NULL || lookups.wrong > 10000) return;
    uint32_t words[3] = {topic, (uint32_t)a->code, a->body_length};
    fwrite(words, sizeof *words, 3, wrong_out);
    fwrite(a->body, 1, a->body_length, wrong_out);
}

static void check(uint32_t topic, const answer *a) {
    if (ask_once) {
        uint8_t *body = need(malloc(a->body_length + 1));
        memcpy(body, a->body, a->body_length);
        free(expected[topic].body);
        expected[topic] = (expected_answer){.code = (int32_t)a->code, .length = a->body_length, .body = body};
        return;
    }
    const expected_answer *e = &expected[topic];
    int looked = opt.sample && lookups.answered % (uint64_t)opt.sample == 0 && e->body != NULL;
    lookups.sampled += (uint64_t)looked;
    if (a->code || (looked && (a->body_length != e->length || memcmp(a->body, e->body, e->length)))) {
        lookups.wrong++;
        keep_wrong(topic, a);
    }
}

static const char *take_lookup(connection *c, const answer *a) {
    int64_t number = a->opaque - OPAQUE_FIRST;
    slot *s = &slots[number & ((1 << SLOT_BITS) - 1)];
    if (number < 0 || (number & ((1 << SLOT_BITS) - 1)) >= slot_count || !s->busy || s->connection != c ||
        number >> SLOT_BITS != s->generation)
        return "an answer to nothing that was asked on that connection (wrong opaque, or answered twice)";
    s->busy = 0;
    c->in_flight--;
    lookups.answered++;
    count_code(&lookups, a);
    check(s->topic, a);
    uint64_t counts_from = opt.rate > 0 ? s->due_ns : now_ns;
    if (counts_from >= measure_from && counts_from < measure_to) {
        uint64_t took = now_ns > s->due_ns ? now_ns - s->due_ns : 0;
        histogram_add(&lookups.latency, took);
        while ((now_ns < measure_to ? now_ns : measure_to - 1) >= measure_from + (uint64_t)(series_seconds + 1) * 1000000000u)
            end_second();
        histogram_add(&second, took);
    }
    uint32_t at = (uint32_t)(number & ((1 << SLOT_BITS) - 1));
    if (opt.rate > 0) free_slots[free_count++] = at;
    else if (may_ask()) ask(at, now_ns), c->in_flight++;
    return NULL;
}

/* registrations */

static void send_registration(int broker, uint64_t due_ns) {
    connection *c = &brokers[broker];
    int variant = reg_sent[broker]++ % 2 ? opt.reg_b : opt.reg_a;
    request *r = &the_plan.registration[(uint32_t)broker * the_plan.variants + (uint32_t)variant];
    if (r->length == 0) {
        fail("the plan has no such variant for this broker");
        return;
    }
    if (c->fd <= 0) {
        const char *error = open_connection(c, port, broker);
        if (error) {
            fail(error);
            return;
        }
    }
    if (!opt.reg_keep) reg_counter[broker]++;
    set_counter(r, OPAQUE_FIRST + reg_counter[broker]);
    write_digits(r->bytes + r->opaque_at, OPAQUE_FIRST + ++reg_opaque[broker] % 1000000);
    c->sending = r, c->sending_sent = 0;
    reg_due[broker] = due_ns, reg_busy[broker] = 1, reg_active++;
    if (!registrations.asked++) reg_first_ns = now_ns;
    const char *error = flush_connection(c);
    if (error) fail(error);
}

static const char *take_registration(connection *c, const answer *a) {
    int broker = c->broker;
    int64_t flag = 0;
    if (HEADER_NUMBER(a->header, a->header_length, "\"flag\":", &flag) && !(flag & 1)) return NULL; /* 905 */
    if (!reg_busy[broker] || a->opaque != OPAQUE_FIRST + (int64_t)(reg_opaque[broker] % 1000000))
        return "an answer to no registration that was sent on that connection";
    reg_busy[broker] = 0, reg_active--;
    registrations.answered++;
    reg_last_ns = now_ns;
    count_code(&registrations, a);
    uint64_t counts_from = opt.seconds > 0 ? reg_due[broker] : measure_from;
    if (counts_from >= measure_from && counts_from < measure_to)
        histogram_add(&registrations.latency, now_ns - reg_due[broker]);
    if (opt.reg_parallel && (opt.reg_each == 0 ? now_ns < measure_to : reg_sent[broker] < (uint64_t)opt.reg_each))
        send_registration(broker, now_ns);
    return NULL;
}

#endif
