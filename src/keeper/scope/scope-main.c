/* cloche-scope PID: requests that the service manager moves process PID into its own scope,
 * delegated to us with every controller of the manager, and waits until it is there.
 * Runs in: a child of the keeper, at the keeper's start, with the keeper's rights. It reads only
 * messages of the service manager and of the bus. Used only on hosts with version 2 control groups
 * whose caller has no delegated group.
 * Exit status and output: src/proto/scope.h.
 *
 * root uses the system's manager, an ordinary user the one of the user's login session. The manager
 * ends the scope, and removes its groups, when no process is left in it: however the keeper ends,
 * nothing stays behind. org.freedesktop.systemd1(5), systemd.scope(5). */
#include "base/clock.h"
#include "base/privilege.h"
#include "proto/scope.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-bus.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#define MANAGER_NAME "org.freedesktop.systemd1"
#define MANAGER_PATH "/org/freedesktop/systemd1"
#define MANAGER_INTERFACE "org.freedesktop.systemd1.Manager"

/* The connection, and the job that starts the scope. */
struct request {
        sd_bus *bus;
        int is_direct; /* to the manager itself, without a bus between */
        uint64_t deadline_us;
        const char *job_path;
        int is_done, result;
        sd_bus_message *reply;
        sd_bus_error error;
};

/* At least 1: libsystemd reads 0 as its own default of 25 s. */
static uint64_t remaining_us(const struct request *q)
{
        uint64_t now_us = clock_now_ns() / 1000;

        return now_us < q->deadline_us ? q->deadline_us - now_us : 1;
}

/* -- reaching the manager ------------------------------------------------------------------------------------- */

static int open_address(const char *path, int is_direct, struct request *q)
{
        char address[128];
        sd_bus *bus = NULL;
        int r;

        if (access(path, F_OK) < 0)
                return -errno;
        snprintf(address, sizeof(address), "unix:path=%s", path);
        r = sd_bus_new(&bus);
        if (r >= 0)
                r = sd_bus_set_address(bus, address);
        if (r >= 0 && !is_direct)
                r = sd_bus_set_bus_client(bus, 1);
        if (r >= 0)
                r = sd_bus_start(bus);
        if (r < 0) {
                sd_bus_unref(bus);
                return r;
        }
        q->bus = bus;
        q->is_direct = is_direct;
        return 0;
}

/* Connect to the bus, or if none runs to the manager's own socket, which only its owner may use. */
static int open_manager(struct request *q)
{
        char bus[64] = "/run/dbus/system_bus_socket", direct[64] = "/run/systemd/private";
        int r;

        if (sd_booted() <= 0)
                return -ENOENT;
        if (!privilege_is_root()) {
                snprintf(bus, sizeof(bus), "/run/user/%u/bus", (unsigned)geteuid());
                snprintf(direct, sizeof(direct), "/run/user/%u/systemd/private", (unsigned)geteuid());
        }
        r = open_address(bus, 0, q);
        return r < 0 ? open_address(direct, 1, q) : r;
}

/* -- the scope ------------------------------------------------------------------------------------------------ */

static int on_job_removed(sd_bus_message *message, void *data, sd_bus_error *error)
{
        struct request *q = data;
        const char *path, *unit, *result;
        uint32_t id;

        (void)error;
        if (sd_bus_message_read(message, "uoss", &id, &path, &unit, &result) < 0 || !q->job_path ||
            strcmp(path, q->job_path) != 0)
                return 0;
        q->is_done = 1;
        q->result = strcmp(result, "done") == 0 ? 0 : -ECANCELED;
        return 0;
}

/* Called before the job begins, so that its end is not missed. Managers send signals over a bus
 * only while a client has subscribed. */
static int watch_jobs(struct request *q)
{
        int r = sd_bus_set_method_call_timeout(q->bus, remaining_us(q));

        if (r >= 0)
                r = sd_bus_match_signal(q->bus, NULL, q->is_direct ? NULL : MANAGER_NAME, MANAGER_PATH,
                                        MANAGER_INTERFACE, "JobRemoved", on_job_removed, q);
        if (r < 0 || q->is_direct)
                return r;
        r = sd_bus_set_method_call_timeout(q->bus, remaining_us(q));
        if (r < 0)
                return r;
        return sd_bus_call_method(q->bus, MANAGER_NAME, MANAGER_PATH, MANAGER_INTERFACE, "Subscribe", &q->error, NULL,
                                  NULL);
}

static int append_arguments(sd_bus_message *message, pid_t pid)
{
        char name[64];
        int r;

        /* An older scope of the same pid may still be ending, so names are never reused. */
        snprintf(name, sizeof(name), "cloche-%d-%llx.scope", (int)pid, (unsigned long long)clock_now_ns());
        r = sd_bus_message_append(message, "ss", name, "fail");
        if (r >= 0)
                r = sd_bus_message_append(message, "a(sv)", 5, "Description", "s", "Boxes of Cloche", "Delegate", "b",
                                          1, "TasksMax", "t", UINT64_MAX, "CollectMode", "s", "inactive-or-failed",
                                          "PIDs", "au", 1, (uint32_t)pid);
        return r < 0 ? r : sd_bus_message_append(message, "a(sa(sv))", 0);
}

static int start_scope(struct request *q, pid_t pid)
{
        sd_bus_message *message = NULL;
        int r = sd_bus_message_new_method_call(q->bus, &message, MANAGER_NAME, MANAGER_PATH, MANAGER_INTERFACE,
                                               "StartTransientUnit");

        if (r >= 0)
                r = append_arguments(message, pid);
        if (r >= 0)
                r = sd_bus_call(q->bus, message, remaining_us(q), &q->error, &q->reply);
        if (r >= 0)
                r = sd_bus_message_read(q->reply, "o", &q->job_path);
        sd_bus_message_unref(message);
        return r;
}

static int wait_for_job(struct request *q)
{
        while (!q->is_done) {
                uint64_t left_us = remaining_us(q);
                int r = sd_bus_process(q->bus, NULL);

                if (r == 0 && left_us == 1)
                        return -ETIMEDOUT;
                if (r == 0)
                        r = sd_bus_wait(q->bus, left_us);
                if (r < 0 && r != -EINTR)
                        return r;
        }
        return q->result;
}

int main(int argc, char **argv)
{
        struct request q = {.error = SD_BUS_ERROR_NULL,
                            .deadline_us = clock_now_ns() / 1000 + (uint64_t)SCOPE_TIMEOUT_MS * 1000};
        char *end = NULL;
        long pid = argc == 2 ? strtol(argv[1], &end, 10) : 0;
        int r;

        if (pid <= 0 || *end) {
                fprintf(stderr, "cloche-scope: only cloche-keeper starts this program\n");
                return SCOPE_USAGE;
        }
        r = open_manager(&q);
        if (r == -ENOENT || r == -EACCES)
                return SCOPE_NO_MANAGER;
        if (r >= 0)
                r = watch_jobs(&q);
        if (r >= 0)
                r = start_scope(&q, (pid_t)pid);
        if (r >= 0)
                r = wait_for_job(&q);
        if (r < 0)
                printf("systemd gives no scope: %s", q.error.message ? q.error.message : strerror(-r));
        sd_bus_message_unref(q.reply);
        sd_bus_error_free(&q.error);
        sd_bus_unref(q.bus);
        return r < 0 ? SCOPE_REFUSED : SCOPE_MOVED;
}
