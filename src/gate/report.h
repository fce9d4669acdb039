/* What was decided, told to the engine: the first at once, the same again in a second's time with how often. More than can be told is counted. */
#ifndef CLOCHE_GATE_REPORT_H
#define CLOCHE_GATE_REPORT_H

#include <jansson.h>
#include <stdint.h>

#define REPORT_ROWS 256

/* Empty or NULL: not said. Copied. */
struct decision {
        const char *kind; /* "dns", "tcp", "tls", "http" */
        const char *host, *address, *rule, *why;
        unsigned port;
        int allowed;
};

struct report_row {
        uint64_t hash;
        uint32_t count; /* since it was last told */
        uint32_t idle;  /* ticks without any */
        json_t *said;   /* NULL: free */
};

struct report {
        /* decision is stolen. */
        void (*tell)(void *data, json_t *decision);
        void *data;
        struct report_row rows[REPORT_ROWS];
        unsigned budget;
        uint64_t lost;
};

void report_init(struct report *report, void (*tell)(void *data, json_t *decision), void *data);
void report_decision(struct report *report, const struct decision *decision);
/* Once a second. */
void report_tick(struct report *report);
void report_done(struct report *report);

#endif
