/* The part of a sandbox that a copy of it has. Runs in: cloched-engine, on its loop, with the
 * rights of the daemon's user. */
#include "heritage.h"
#include "startup.h"

#include "base/clock.h"
#include "sandbox/core/store.h"
#include "sandbox/network/port.h"
#include "sandbox/process/process.h"
#include "sandbox/session/session.h"

#include <stdio.h>
#include <string.h>

/* Mounts have the rights of a caller at each start. Two sandboxes that write to one volume have
 * to know of each other. The token of a port is a secret that leads to one sandbox. */
static const char *const own_members[] = {"sandbox",    "runs",     "createdMs", "usedMs", "savedMs",
                                          "lostFromMs", "lostToMs", "ports",     "mount",  "volumes",
                                          "hasCaller",  "endsMs",   "hostName",  NULL};

json_t *sandbox_heritage_of(struct sandbox *s)
{
        json_t *heritage = sandbox_store_definition(s);

        for (const char *const *name = own_members; heritage && *name; name++)
                json_object_del(heritage, *name);
        return heritage;
}

int sandbox_heritage_take(struct sandbox *s, const json_t *heritage, struct cloche_err *e)
{
        json_t *definition = json_copy((json_t *)(uintptr_t)heritage);
        json_int_t now_ms = (json_int_t)clock_real_ms();
        int r;

        json_object_set_new(definition, "createdMs", json_integer(now_ms));
        json_object_set_new(definition, "usedMs", json_integer(now_ms));
        r = sandbox_store_take(s, definition, e);
        json_decref(definition);
        return r;
}

/* -- what is left out --------------------------------------------------------------------------------------------- */

void sandbox_heritage_omit(json_t *list, const char *kind, const char *name, const char *reason)
{
        json_array_append_new(list, json_pack("{s:s, s:s, s:s}", "kind", kind, "name", name, "reason", reason));
}

static void omit_programs(const struct sandbox *s, json_t *list)
{
        const struct process *p;
        const struct session *session;

        TAILQ_FOREACH (p, &s->processes, link)
                if (!process_is_ended(p) && !p->is_hidden && !sandbox_startup_has(s, p))
                        sandbox_heritage_omit(list, "process", p->id,
                                              "processes of shells are not forked: start it again in the fork");
        TAILQ_FOREACH (session, &s->sessions, link)
                if (!session->is_closing && session_is_busy(session))
                        sandbox_heritage_omit(list, "session", session->name,
                                              "its command goes on here only; the fork has a session of this name, "
                                              "with its directory and exported variables as they were before");
}

void sandbox_heritage_list_omitted(const struct sandbox *s, json_t *list)
{
        const struct port *port;
        const char *place;
        const json_t *volume;
        json_t *of;
        size_t i;

        omit_programs(s, list);
        TAILQ_FOREACH (port, &s->ports, link) {
                char number[16];

                snprintf(number, sizeof(number), "%u", port->number);
                sandbox_heritage_omit(list, "port", number, "an exposed port has a token of its own: expose it there");
        }
        json_object_foreach (json_object_get(s->mount, "dirs"), place, of)
                sandbox_heritage_omit(list, "mount", place,
                                      "mounts have the rights of the caller who made the sandbox");
        json_array_foreach (s->volumes, i, volume)
                sandbox_heritage_omit(list, "volume", json_string_value(json_object_get(volume, "name")),
                                      "volumes are not copied, and not shared without being asked for");
}
