/* The daemon's statistics, as JSON and as text for Prometheus. */
#ifndef CLOCHE_DAEMON_CORE_STATS_H
#define CLOCHE_DAEMON_CORE_STATS_H

#include "base/buf.h"

#include <cloche/error.h>
#include <jansson.h>

#define STATS_BUCKETS 14

struct daemon;

struct stats {
        uint64_t started_ns;
        uint64_t runs_total, runs_by_status[CLOCHE_STATUS_COUNT], runs_refused, errors_total;
        uint64_t run_buckets[STATS_BUCKETS + 1]; /* by duration; the last: longer runs */
        double run_seconds;
        uint64_t connections_total, connections_refused, requests_total, bridge_calls_total;
        uint64_t bytes_read, bytes_written;
        unsigned runs_now;
        uint32_t restarts; /* of the engine, by the supervisor */
        int statm_fd;      /* /proc/self/statm, which cannot be opened later */
};

void stats_begin(struct stats *stats);
void stats_run(struct stats *stats, enum cloche_status status, uint64_t duration_ns);
json_t *stats_object(const struct daemon *d);
/* Text format 0.0.4 of Prometheus; returns 0 or -ENOMEM. */
int stats_text(const struct daemon *d, struct buf *ret);

#endif
