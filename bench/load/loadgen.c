/* loadgen PORT LOOKUPS REGISTRATIONS: loads a name server on this machine and checks what it answers.
 *
 * Reads commands from its input, one a line, and answers each with one line of JSON:
 *
 *   once bodies=FILE      ask every lookup of the plan once (64 connections, 16 in flight); keeps the answers as what
 *                         is expected from then on, and writes them: u32 count, then i32 code, u32 length, body each
 *   run key=value...      load for a while, see `options` in traffic.h
 *   leave                 close the brokers' connections
 *   values                (for tests) a line of numbers follows; answers with their histogram
 *
 * Closed loop (rate=0): every connection has `inflight` requests open all the time. Open loop: requests are due at
 * fixed times, whatever became of earlier ones, and latency counts from the time a request was due: nothing is left
 * out when the server stalls (no coordinated omission).
 */
#include "wire.h"

#include <sys/resource.h>

#include "traffic.h"

/* one run */

static const char *take(connection *c, const answer *a) {
    last_answer = now_ns;
    return c->broker < 0 ? take_lookup(c, a) : take_registration(c, a);
}

static void handle(struct epoll_event *event) {
    connection *c = event->data.ptr;
    const char *error = NULL;
    if (event->events & (EPOLLIN | EPOLLERR | EPOLLHUP)) error = read_answers(c, take);
    if (!error && c->fd > 0 && (c->out.length > c->out_sent || c->sending || c->wants_write)) error = flush_connection(c);
    if (error) fail(error);
}

static void prepare(connection *all) {
    for (int i = 0; i < opt.connections; i++) {
        const char *error = open_connection(&all[i], port, -1);
        if (error) {
            fail(error);
            return;
        }
    }
    slot_count = opt.rate > 0 ? 1u << (SLOT_BITS - 2) : (uint32_t)(opt.connections * opt.inflight);
    if (slot_count > 1u << SLOT_BITS) die("too many requests in flight", "at most 4,194,304");
    slots = need(calloc(slot_count ? slot_count : 1, sizeof *slots));
    free_slots = need(calloc(slot_count ? slot_count : 1, sizeof *free_slots));
    for (uint32_t i = 0; i < slot_count; i++) free_slots[free_count++] = slot_count - 1 - i;
    if (opt.rate > 0) return;
    for (uint32_t i = 0; i < slot_count; i++) slots[i].connection = &all[i / (uint32_t)opt.inflight];
}

static void begin_closed(connection *all) {
    for (int i = 0; i < opt.connections && !failure[0]; i++) {
        now_ns = clock_ns();
        for (int k = 0; k < opt.inflight && may_ask(); k++) {
            ask((uint32_t)(i * opt.inflight + k), now_ns);
            all[i].in_flight++;
        }
        const char *error = flush_connection(&all[i]);
        if (error) fail(error);
    }
}

/* Send what is due; the time at which the next one is. */
static uint64_t send_due(connection *all, uint64_t started, uint64_t *sent, uint64_t *regs) {
    uint64_t next = UINT64_MAX;
    if (opt.rate > 0)
        while ((next = started + (uint64_t)((double)*sent * 1e9 / opt.rate)) <= now_ns && next < measure_to) {
            connection *c = &all[*sent % (uint64_t)opt.connections];
            if (free_count == 0) {
                fail("the server is a million answers behind");
                return next;
            }
            uint32_t number = free_slots[--free_count];
            slots[number].connection = c;
            ask(number, next);
            c->in_flight++;
            ++*sent;
            if (next >= measure_from) histogram_add(&late, now_ns - next);
            const char *error = flush_connection(c);
            if (error) fail(error);
            now_ns = clock_ns();
        }
    if (opt.reg_rate > 0) {
        uint64_t due;
        while ((due = started + (uint64_t)((double)*regs * 1e9 / opt.reg_rate)) <= now_ns && due < measure_to) {
            int broker = (int)(*regs % the_plan.brokers);
            if (reg_busy[broker]) break; /* its turn comes when it is answered; its latency counts from when it was due */
            send_registration(broker, due);
            ++*regs;
        }
        if (due < next) next = due;
    }
    return next;
}

static int is_over(uint64_t open_lookups) {
    if (failure[0]) return 1;
    if (ask_once) return lookups.answered == the_plan.lookups;
    if (opt.asks) return lookups.answered >= (uint64_t)opt.asks;
    if (opt.seconds <= 0) return reg_active == 0;
    if (now_ns < measure_to) return 0;
    /* A closed loop's last requests are not waited for, unless no answer would have been compared without them:
       on a machine that is busy a short window may have none. */
    if (opt.rate <= 0 && lookups.answered >= (uint64_t)opt.sample) open_lookups = 0;
    return (open_lookups == 0 && reg_active == 0) || now_ns > measure_to + (uint64_t)(opt.drain_s * 1e9);
}

static void loop(connection *all) {
    struct epoll_event events[256];
    uint64_t started = now_ns = last_answer = clock_ns(), sent = 0, regs = 0;
    int spins = opt.rate > 0;
    measure_from = started + (uint64_t)(opt.warmup_s * 1e9);
    measure_to = opt.seconds > 0 ? measure_from + (uint64_t)(opt.seconds * 1e9) : UINT64_MAX;
    for (int i = 0; i < opt.reg_parallel; i++) send_registration(opt.reg_first + i, now_ns);
    if (opt.rate <= 0) begin_closed(all);
    while (!is_over(lookups.asked - lookups.answered)) {
        uint64_t next = send_due(all, started, &sent, &regs);
        int wait_ms = spins || next <= now_ns ? 0 : 10;
        if (next > now_ns && next - now_ns < 10000000u) wait_ms = 0;
        int ready = epoll_wait(epoll_fd, events, 256, wait_ms);
        for (int i = 0; i < ready && !failure[0]; i++) handle(&events[i]);
        now_ns = clock_ns();
        if (now_ns - last_answer > (uint64_t)(opt.stall_s * 1e9) && (lookups.asked > lookups.answered || reg_active))
            fail("nothing was answered for too long");
    }
    for (uint32_t i = 0; opt.rate > 0 && i < slot_count; i++) /* never answered: it took at least this long */
        if (slots[i].busy && slots[i].due_ns >= measure_from) {
            lookups.lost++;
            histogram_add(&lookups.latency, now_ns - slots[i].due_ns);
        }
}

static void print_stream(const char *name, const stream *s) {
    printf("\"%s\":{\"asked\":%" PRIu64 ",\"answered\":%" PRIu64 ",\"lost\":%" PRIu64 ",\"sampled\":%" PRIu64
           ",\"wrong\":%" PRIu64 ",\"codes\":{", name, s->asked, s->answered, s->lost, s->sampled, s->wrong);
    for (int i = 0; i < 16 && s->codes[i].count; i++)
        printf("%s\"%" PRId64 "\":%" PRIu64, i ? "," : "", s->codes[i].code, s->codes[i].count);
    fputs("},\"remark\":\"", stdout);
    for (const char *at = s->remark; *at; at++)
        if (*at != '"' && *at != '\\' && (unsigned char)*at >= ' ') putchar(*at);
    fputs("\",\"latency\":", stdout);
    histogram_print(stdout, &s->latency);
    putchar('}');
}

static double cpu_s(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static void run(void) {
    connection *all = need(calloc((size_t)opt.connections + 1, sizeof *all));
    failure[0] = 0;
    free_count = series_seconds = reg_active = 0;
    memset(&lookups, 0, sizeof lookups), memset(&registrations, 0, sizeof registrations);
    histogram_clear(&second), histogram_clear(&late);
    series_out = need(open_memstream(&series_text, &series_length));
    wrong_out = opt.wrong[0] ? fopen(opt.wrong, "wb") : NULL;
    if (opt.wrong[0] && wrong_out == NULL) die("cannot write", opt.wrong);
    for (uint32_t i = 0; i < the_plan.brokers; i++) reg_busy[i] = 0, reg_sent[i] = 0;
    if (opt.reg_first + opt.reg_parallel > (int)the_plan.brokers || (opt.reg_a > opt.reg_b ? opt.reg_a : opt.reg_b) >= (int)the_plan.variants)
        if (opt.reg_parallel || opt.reg_rate > 0) fail("the plan has no such broker or variant");
    double cpu_before = cpu_s();
    uint64_t began = clock_ns();
    if (!failure[0]) prepare(all);
    if (!failure[0]) loop(all);
    if (second.count) end_second();
    fclose(series_out);
    elapsed_s = (double)(clock_ns() - began) / 1e9;
    used_s = cpu_s() - cpu_before;
    for (int i = 0; i < opt.connections; i++) close_connection(&all[i]);
    for (uint32_t i = 0; i < the_plan.brokers; i++)
        if (reg_busy[i] || failure[0]) close_connection(&brokers[i]); /* in the middle of a frame, perhaps */
    free(all), free(slots), free(free_slots);
    if (wrong_out) fclose(wrong_out);
    slots = NULL, free_slots = NULL, wrong_out = NULL;
}

/* Tell what the run showed; last of all, for whoever reads it may then read the files. */
static void report(void) {
    printf("{\"error\":\"%s\",\"elapsed_s\":%.6f,\"cpu_s\":%.6f,\"series\":[%s],", failure, elapsed_s, used_s,
           series_text);
    print_stream("lookups", &lookups);
    printf(",\"late\":");
    histogram_print(stdout, &late);
    printf(",\"registrations_s\":%.6f,", registrations.answered ? (double)(reg_last_ns - reg_first_ns) / 1e9 : 0.0);
    print_stream("registrations", &registrations);
    printf("}\n");
    fflush(stdout);
    free(series_text);
    series_text = NULL;
}

/* commands */

static void set_option(const char *key, const char *value) {
    double number = atof(value);
#define OPTION(name) if (!strcmp(key, #name)) { opt.name = (__typeof__(opt.name))number; return; }
    OPTION(warmup_s) OPTION(seconds) OPTION(rate) OPTION(reg_rate) OPTION(drain_s) OPTION(stall_s) OPTION(connections)
    OPTION(inflight) OPTION(asks) OPTION(sample) OPTION(reg_parallel) OPTION(reg_each) OPTION(reg_a) OPTION(reg_b)
    OPTION(reg_first) OPTION(reg_keep)
    if (strcmp(key, "wrong") && strcmp(key, "bodies")) die("no such option", key);
    snprintf(opt.wrong, sizeof opt.wrong, "%s", value);
}

static void once(void) {
    char path[sizeof opt.wrong];
    snprintf(path, sizeof path, "%s", opt.wrong);
    opt.connections = 64, opt.inflight = 16, opt.rate = 0, opt.wrong[0] = 0, opt.seconds = 1e6;
    ask_once = 1, next_once = 0;
    run();
    ask_once = 0;
    if (!path[0]) {
        report();
        return;
    }
    FILE *out = fopen(path, "wb");
    if (out == NULL) die("cannot write", path);
    fwrite(&the_plan.lookups, sizeof the_plan.lookups, 1, out);
    for (uint32_t i = 0; i < the_plan.lookups; i++) {
        fwrite(&expected[i].code, 4, 1, out);
        fwrite(&expected[i].length, 4, 1, out);
        if (expected[i].length) fwrite(expected[i].body, 1, expected[i].length, out);
    }
    fclose(out);
    report();
}

static void values(void) {
    static histogram h;
    char *text = NULL;
    size_t room = 0;
    histogram_clear(&h);
    if (getline(&text, &room, stdin) < 0) die("no values", "a line of numbers must follow");
    for (char *at = strtok(text, " \n"); at; at = strtok(NULL, " \n")) histogram_add(&h, strtoull(at, NULL, 10));
    histogram_print(stdout, &h);
    putchar('\n');
    fflush(stdout);
    free(text);
}

int main(int argc, char **argv) {
    if (argc != 4) die("usage", "loadgen PORT LOOKUPS REGISTRATIONS");
    port = atoi(argv[1]);
    crc_begin();
    load_plan(&the_plan, argv[2], argv[3]);
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    expected = need(calloc(the_plan.lookups + 1, sizeof *expected));
    brokers = need(calloc(the_plan.brokers + 1, sizeof *brokers));
    reg_due = need(calloc(the_plan.brokers + 1, sizeof *reg_due));
    reg_sent = need(calloc(the_plan.brokers + 1, sizeof *reg_sent));
    reg_counter = need(calloc(the_plan.brokers + 1, sizeof *reg_counter));
    reg_opaque = need(calloc(the_plan.brokers + 1, sizeof *reg_opaque));
    reg_busy = need(calloc(the_plan.brokers + 1, sizeof *reg_busy));
    char line[4096];
    while (fgets(line, sizeof line, stdin)) {
        char *verb = strtok(line, " \n");
        opt = (options){.drain_s = 5, .stall_s = 60, .inflight = 1, .sample = 16};
        for (char *pair; verb && (pair = strtok(NULL, " \n"));) {
            char *value = strchr(pair, '=');
            if (value == NULL) die("an option without a value", pair);
            *value = 0;
            set_option(pair, value + 1);
        }
        if (verb == NULL) continue;
        if (!strcmp(verb, "run")) run(), report();
        else if (!strcmp(verb, "once")) once();
        else if (!strcmp(verb, "values")) values();
        else if (!strcmp(verb, "leave")) {
            for (uint32_t i = 0; i < the_plan.brokers; i++) close_connection(&brokers[i]);
            puts("{}"), fflush(stdout);
        } else die("no such command", verb);
    }
    return 0;
}
