/* The usage of a sandbox over the last minutes in which it ran. */
#ifndef CLOCHE_SANDBOX_LIFE_METRICS_H
#define CLOCHE_SANDBOX_LIFE_METRICS_H

#include "sandbox/core/sandboxes.h"

/* Called every second: take a sample if one is due. */
void sandbox_metrics_tidy(struct sandbox *s, uint64_t now_ns);
void sandbox_metrics_on_box_closed(struct sandbox *s);
/* The newest sample as an object; NULL: there is none. */
json_t *sandbox_metrics_newest(struct sandbox *s);
void sandbox_metrics_free(struct sandbox *s);

#endif
