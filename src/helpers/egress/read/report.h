/* Report decisions to the engine: the first equal ones of a second at once, so that
 * the result of a command has them, the others together, with a count. Decisions
 * beyond the rate limit are dropped. */
#ifndef CLOCHE_HELPERS_EGRESS_READ_REPORT_H
#define CLOCHE_HELPERS_EGRESS_READ_REPORT_H

#include <jansson.h>
#include <stdint.h>

#define REPORT_ROWS 256

/* Empty or NULL: omitted. Strings are copied. */
struct decision {
        const char *kind; /* "dns", "tcp", "tls", "http" */
        const char *host, *address, *rule, *why;
        unsigned port;
        int allowed;
};

struct report_row {
        uint64_t hash;
        uint32_t count; /* since the last report */
        uint32_t sent;  /* reports since the last tick */
        uint32_t idle;  /* ticks without a decision */
        json_t *json;   /* NULL: free */
};

struct report {
        /* Steals decision. */
        void (*send)(void *data, json_t *decision);
        void *data;
        struct report_row rows[REPORT_ROWS];
        unsigned budget;
};

void report_init(struct report *report, void (*send)(void *data, json_t *decision), void *data);
void report_decision(struct report *report, const struct decision *decision);
/* Once a second. */
void report_tick(struct report *report);
void report_done(struct report *report);

#endif
