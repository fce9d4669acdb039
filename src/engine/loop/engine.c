/* The engine itself: options, the keeper's end, timers, the list of ended runs. Runs in: the
 * program that links libcloche, with its rights; started by root, as a user of its own once the
 * keeper runs. */
#include "engine.h"

#include "base/err.h"
#include "base/fd.h"
#include "base/privilege.h"
#include "engine/box/image-client.h"
#include "proto/usage.h"
#include "wire/json.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define QUEUE_MAX 10000
#define TEMPLATES_MAX 16
#define POOL_SIZE 2
#define BOXES_AHEAD 2
#define TIDY_EVERY_MS 10000
#define SILENT_TURNS_MAX 3 /* ticks of the tidy timer without an answer */
#define BASE_FORKS 10000
#define REFILL_AFTER_MS 2 /* after a run took an instance: the run has the processors for itself until then */

/* Return the directory of the running program, or "". */
static void program_directory(char *ret, size_t size)
{
        ssize_t n = readlink("/proc/self/exe", ret, size - 1);
        char *slash;

        ret[n < 0 ? 0 : n] = '\0';
        slash = strrchr(ret, '/');
        if (slash)
                *slash = '\0';
        else
                ret[0] = '\0';
}

/* Find a directory that holds probe: the caller's, the environment's, a build tree's, the
 * installation's. Only the last two are searched; a named one is taken as it is. */
static void find_directory(const char *named, const char *variable, const char *const *near, const char *probe,
                           const char *installed, char *ret, size_t size)
{
        const char *given = named ? named : getenv(variable);
        char base[2048], path[4096];

        if (given && *given) {
                snprintf(ret, size, "%s", given);
                return;
        }
        program_directory(base, sizeof(base));
        for (; base[0] && *near; near++) {
                snprintf(ret, size, "%s%s", base, *near);
                snprintf(path, sizeof(path), "%s/%s", ret, probe);
                if (access(path, F_OK) == 0)
                        return;
        }
        snprintf(ret, size, "%s", installed);
}

static void find_libexec(const struct cloche_engine_options *opt, char *ret, size_t size)
{
        static const char *const near[] = {"", "/src/keeper", "/../keeper", "/../src/keeper", NULL};

        find_directory(opt->libexec_dir, "CLOCHE_LIBEXEC", near, "cloche-keeper", CLOCHE_LIBEXEC_DIR, ret, size);
}

static void find_runtimes(const struct cloche_engine_options *opt, char *ret, size_t size)
{
        static const char *const near[] = {"/runtimes", "/../runtimes", "/../../runtimes", "/../../../runtimes", NULL};

        find_directory(opt->runtimes_dir, "CLOCHE_RUNTIMES", near, "python/manifest.json", CLOCHE_RUNTIMES_DIR, ret,
                       size);
}

/* The keeper needs absolute paths, for its working directory is /. */
static int absolute(const char *path, char **ret, struct cloche_err *e)
{
        *ret = path ? realpath(path, NULL) : strdup("");
        return *ret ? 0 : err_os(e, CLOCHE_E_UNREADABLE_FILE, errno, "open '%.100s'", path ? path : "");
}

/* The names of files of the host begin with a slash or a dot, or there is such a directory. */
static int is_path(const char *image)
{
        struct stat status;

        return !*image || strchr("/.", *image) || (stat(image, &status) == 0 && S_ISDIR(status.st_mode));
}

/* Look a name of the store up, once. *ret: the name of the tree. */
static int resolve_image(const struct cloche_engine_options *opt, const char *libexec, char **ret, char **ret_settings,
                         struct cloche_err *e)
{
        json_t *answer = NULL, *settings;
        struct image image;
        const char *tree;
        int r = image_client_resolve(libexec, opt->images_dir, opt->image, &answer, e);

        if (r < 0)
                return r;
        tree = json_string_value(json_object_get(answer, "tree"));
        settings = image_settings_pick(answer);
        if (!tree || !image_read(tree, &image))
                r = err_set(e, CLOCHE_E_PROTOCOL, "the program of the image store sent an invalid message");
        *ret = r == 0 ? strdup(image.name) : NULL;
        *ret_settings = r == 0 && !opt->image_settings ? json_dump_text(settings, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
        if (r == 0 && (!*ret || (!*ret_settings && !opt->image_settings)))
                r = err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "start an engine");
        json_decref(settings);
        json_decref(answer);
        return r;
}

/* A directory, or an image of the store. *ret_settings: of a name, unless the caller has stated
 * some; owned. */
static int find_image(const struct cloche_engine_options *opt, const char *libexec, char **ret, char **ret_settings,
                      struct cloche_err *e)
{
        struct image image;
        int is_digest = opt->image && image_read(opt->image, &image);

        *ret_settings = NULL;
        if (!opt->image || (!is_digest && (is_path(opt->image) || !opt->images_dir)))
                return absolute(opt->image, ret, e);
        if (!is_digest)
                return resolve_image(opt, libexec, ret, ret_settings, e);
        if (!opt->images_dir)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "%s: there is no image store (images_dir names one)",
                               opt->image);
        *ret = strdup(image.name);
        return *ret ? 0 : err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "start an engine");
}

/* Find the image of boxes that name none, and keep its settings. */
static int take_image(cloche_engine *engine, const struct cloche_engine_options *opt, const char *libexec,
                      struct cloche_err *e)
{
        char *found;
        int r = find_image(opt, libexec, &engine->image, &found, e);

        if (r < 0) {
                free(found);
                return err_wrap(e, "image");
        }
        r = image_settings_take(&engine->image_settings, found ? found : opt->image_settings, &engine->own_settings, e);
        free(found);
        if (r == 0 && engine->own_settings)
                engine->own_settings->refs++;
        return r;
}

/* The directory of trees in the store, which may not exist yet; "": there is no store. */
static int find_trees(const char *images_dir, char **ret, struct cloche_err *e)
{
        char here[4096] = "";
        int size;

        if (images_dir && images_dir[0] != '/' && !getcwd(here, sizeof(here)))
                return err_os(e, CLOCHE_E_UNREADABLE_FILE, errno, "open the working directory");
        size = images_dir ? asprintf(ret, "%s%s%s/trees", here, here[0] ? "/" : "", images_dir)
                          : asprintf(ret, "%s", "");
        return size < 0 ? err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "name the image store") : 0;
}

/* Format "UID,GID[,GID…]:PATH" for the keeper's command line. */
static int argument_of(const char *path, uid_t uid, char **ret, struct cloche_err *e)
{
        struct passwd row, *found = NULL;
        gid_t groups[KEEPER_CALLER_GROUPS_MAX];
        char names[4096];
        int count = KEEPER_CALLER_GROUPS_MAX;
        size_t size;
        FILE *text;

        if (uid == (uid_t)-1)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "'%.100s': no user has the number %u", path,
                               (unsigned)uid);
        if (uid != geteuid() && !privilege_is_root())
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "'%.100s' for the user %u: only root mounts with the rights of others", path,
                               (unsigned)uid);
        if (getpwuid_r(uid, &row, names, sizeof(names), &found) != 0 || !found)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "'%.100s' for the user %u: no user has this number, so its groups are unknown", path,
                               (unsigned)uid);
        if (getgrouplist(row.pw_name, row.pw_gid, groups, &count) < 0)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "'%.100s' for the user %u: the user is in more than %d groups", path, (unsigned)uid,
                               KEEPER_CALLER_GROUPS_MAX);
        text = open_memstream(ret, &size);
        if (!text)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "start an engine");
        fprintf(text, "%u,%u", (unsigned)uid, (unsigned)row.pw_gid);
        for (int i = 0; i < count; i++)
                fprintf(text, ",%u", (unsigned)groups[i]);
        fprintf(text, ":%s", path);
        return fclose(text) == 0 ? 0 : err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "start an engine");
}

static int take_mount_root(cloche_engine *engine, const char *path, int64_t uid, struct cloche_err *e)
{
        struct mount_roots *roots = &engine->mount_roots;
        char **argument = &roots->arguments[roots->count];
        int r = absolute(path, &roots->paths[roots->count], e);

        if (r < 0)
                return err_wrap(e, "mount_roots");
        roots->count++;
        if (uid >= 0)
                return argument_of(roots->paths[roots->count - 1], uid < UINT32_MAX ? (uid_t)uid : (uid_t)-1, argument,
                                   e);
        *argument = strdup(roots->paths[roots->count - 1]);
        return *argument ? 0 : err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "start an engine");
}

static int take_mount_roots(cloche_engine *engine, const struct cloche_engine_options *opt, struct cloche_err *e)
{
        int r = 0;

        engine->mount_roots.paths = calloc(opt->mount_root_count + 1, sizeof(char *));
        engine->mount_roots.arguments = calloc(opt->mount_root_count + 1, sizeof(char *));
        if (!engine->mount_roots.paths || !engine->mount_roots.arguments)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "start an engine");
        for (size_t i = 0; r == 0 && i < opt->mount_root_count; i++)
                r = take_mount_root(engine, opt->mount_roots[i], opt->mount_root_uids ? opt->mount_root_uids[i] : -1,
                                    e);
        return r;
}

static int open_libexec(cloche_engine *engine, struct cloche_err *e)
{
        engine->libexec_fd = open(engine->libexec_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (engine->libexec_fd < 0)
                return err_os(e, CLOCHE_E_KEEPER, errno, "open %s", engine->libexec_dir);
        engine->probe_fd = openat(engine->libexec_fd, "cloche-probe", O_RDONLY | O_CLOEXEC);
        return 0;
}

static int start(cloche_engine *engine, const struct cloche_engine_options *opt, struct cloche_err *e)
{
        char libexec[4096], runtimes[4096];
        char *runtimes_path = NULL, *trees = NULL;
        struct keeper_options keeper = {.core_scheduling = opt->core_scheduling};
        int r;

        find_libexec(opt, libexec, sizeof(libexec));
        find_runtimes(opt, runtimes, sizeof(runtimes));
        r = take_image(engine, opt, libexec, e);
        if (r < 0)
                return r;
        r = find_trees(opt->images_dir, &trees, e);
        if (r < 0)
                return err_wrap(e, "images_dir");
        r = absolute(runtimes, &runtimes_path, e);
        if (r < 0)
                r = err_wrap(e, "runtimes");
        if (r == 0)
                r = runtimes_load(runtimes_path, &engine->runtimes, e);
        if (r == 0)
                r = absolute(libexec, &engine->libexec_dir, e);
        if (r == 0)
                r = take_mount_roots(engine, opt, e);
        if (r == 0)
                r = open_libexec(engine, e);
        engine->has_images = trees[0] != '\0';
        keeper.image = engine->image;
        keeper.trees = engine->has_images ? trees : NULL;
        keeper.volumes = opt->volumes_dir;
        keeper.images_are_written = opt->images_are_written;
        keeper.runtimes = runtimes_path;
        keeper.roots = (const char *const *)engine->mount_roots.arguments;
        keeper.root_count = engine->mount_roots.count;
        if (r == 0)
                r = keeper_start(engine->libexec_dir, &keeper, &engine->keeper, e);
        free(runtimes_path);
        free(trees);
        engine->artifacts_fd =
                artifacts_open(opt->cache_dir, opt->becomes_uid ? opt->becomes_uid
                                                                : geteuid()); /* if it fails, builds are not cached */
        return r;
}

static int is_complete(const struct cgroup_host *groups, const struct keeper_usage *ret)
{
        return (ret->cpu_known || !groups->places[CGROUP_CPUACCT].version) &&
               (ret->memory_known || !groups->places[CGROUP_MEMORY].version) &&
               (ret->pids_known || !groups->places[CGROUP_PIDS].version);
}

int engine_read_usage(const struct cloche_engine *engine, uint32_t box, struct keeper_usage *ret)
{
        const struct cgroup_host *groups = keeper_groups(engine->keeper);

        *ret = usage_read(groups, box);
        return is_complete(groups, ret);
}

void engine_read_present(const struct cloche_engine *engine, uint32_t box, struct cgroup_present *ret)
{
        cgroup_read_present(keeper_groups(engine->keeper), box, ret);
}

int engine_measure_box(const struct cloche_engine *engine, struct box *box, struct keeper_usage *ret)
{
        const struct cgroup_host *groups = keeper_groups(engine->keeper);
        struct cgroup_usage usage;

        if (!box->made || (!box->counters.is_open && cgroup_usage_open(groups, box->id, &box->counters) < 0))
                return 0;
        cgroup_usage_read(&box->counters, &usage);
        *ret = usage_convert(&usage);
        return is_complete(groups, ret);
}

/* -- the loop --------------------------------------------------------------------------------------------------- */

/* Make the instances that were put off because too many boxes were being made. */
static void retry_instances(cloche_engine *engine)
{
        if (!engine->must_retry_instances || !keeper_may_make(engine->keeper))
                return;
        engine->must_retry_instances = 0;
        templates_dispatch(engine);
        engine_schedule_refill(engine);
}

/* All pending requests have failed by now; new ones fail at once. */
static void lose_keeper(cloche_engine *engine)
{
        uv_poll_stop(&engine->keeper_poll);
        engine->is_keeper_lost = 1;
}

static void on_keeper(uv_poll_t *poll, int status, int events)
{
        cloche_engine *engine = poll->data;
        int r;

        (void)status;
        (void)events;
        do
                r = keeper_receive(engine->keeper, NULL);
        while (r > 0);
        if (r == 0)
                retry_instances(engine);
        else
                lose_keeper(engine);
}

static void report_ended(cloche_engine *engine)
{
        struct cloche_run *run;

        while ((run = TAILQ_FIRST(&engine->ended)))
                run_report(run);
}

static void on_check(uv_check_t *check)
{
        runs_close_ends(check->data); /* of earlier turns */
        report_ended(check->data);
}

static void on_refill(uv_timer_t *timer)
{
        templates_refill(timer->data);
}

static void on_held_timer(uv_timer_t *timer)
{
        cloche_engine *engine = timer->data;
        int again_ms = keeper_send_held(engine->keeper);

        retry_instances(engine);
        runs_start_cold(engine);
        if (again_ms >= 0)
                uv_timer_start(timer, on_held_timer, (uint64_t)again_ms, 0);
}

/* Code of a template can delay boxes being made, so that the keeper sends nothing for long: start a
 * timer. */
static void on_held(void *data)
{
        cloche_engine *engine = data;

        if (!uv_is_active((uv_handle_t *)&engine->held_timer))
                uv_timer_start(&engine->held_timer, on_held_timer, 0, 0);
}

void engine_retry_instances(struct cloche_engine *engine)
{
        engine->must_retry_instances = 1;
        on_held(engine);
}

void engine_awaits_boxes(struct cloche_engine *engine)
{
        on_held(engine);
}

static void on_pong(void *data, struct keeper_reply *reply)
{
        cloche_engine *engine = data;

        (void)reply; /* all other requests get the same error */
        engine->is_pinging = 0;
        engine->silent_turns = 0;
}

/* Give up the keeper after SILENT_TURNS_MAX ticks without an answer. Ticks, not time, are counted:
 * time passes while the machine sleeps or this process is stopped. */
static void ping(cloche_engine *engine)
{
        char why[100];

        if (engine->is_keeper_lost)
                return;
        if (!engine->is_pinging) {
                engine->is_pinging = keeper_ping_async(engine->keeper, on_pong, engine, NULL) == 0;
        } else if (++engine->silent_turns == SILENT_TURNS_MAX) {
                snprintf(why, sizeof(why), "the keeper has not answered for %d s",
                         SILENT_TURNS_MAX * TIDY_EVERY_MS / 1000);
                keeper_give_up(engine->keeper, why);
                lose_keeper(engine);
        }
}

static void on_tidy(uv_timer_t *timer)
{
        templates_tidy(timer->data);
        ping(timer->data);
}

void engine_schedule_refill(struct cloche_engine *engine)
{
        if (!uv_is_active((uv_handle_t *)&engine->refill_timer))
                uv_timer_start(&engine->refill_timer, on_refill, REFILL_AFTER_MS, 0);
}

static int watch(cloche_engine *engine, struct cloche_err *e)
{
        int r = uv_poll_init(&engine->loop, &engine->keeper_poll, keeper_fd(engine->keeper));

        if (r < 0)
                return err_os(e, CLOCHE_E_RESOURCE, -r, "watch the keeper");
        engine->keeper_poll.data = engine;
        uv_poll_start(&engine->keeper_poll, UV_READABLE, on_keeper);
        stream_turns_open(&engine->streams, &engine->loop);
        uv_check_init(&engine->loop, &engine->ended_check);
        engine->ended_check.data = engine;
        uv_check_start(&engine->ended_check, on_check);
        uv_timer_init(&engine->loop, &engine->refill_timer);
        engine->refill_timer.data = engine;
        uv_timer_init(&engine->loop, &engine->held_timer);
        engine->held_timer.data = engine;
        keeper_on_held(engine->keeper, on_held, engine);
        uv_timer_init(&engine->loop, &engine->tidy_timer);
        engine->tidy_timer.data = engine;
        uv_timer_start(&engine->tidy_timer, on_tidy, TIDY_EVERY_MS, TIDY_EVERY_MS);
        engine->is_watching = 1;
        return 0;
}

int cloche_engine_fd(const cloche_engine *engine)
{
        return uv_backend_fd(&engine->loop);
}

int cloche_engine_timeout_ms(const cloche_engine *engine)
{
        return TAILQ_EMPTY(&engine->ended) ? uv_backend_timeout(&engine->loop) : 0;
}

int cloche_engine_is_over(const cloche_engine *engine)
{
        return engine->is_keeper_lost;
}

unsigned cloche_engine_waiting(const cloche_engine *engine)
{
        return engine->waiting + engine->cold_waiting_count;
}

int engine_check_queue(const struct cloche_engine *engine, struct cloche_err *e)
{
        unsigned waiting = cloche_engine_waiting(engine);

        return waiting < engine->options.queue_max
                       ? 0
                       : err_set(e, CLOCHE_E_QUEUE_FULL,
                                 "the queue is full: %u runs wait, at most %u may; try again when one has ended",
                                 waiting, engine->options.queue_max);
}

void cloche_engine_turn(cloche_engine *engine)
{
        uv_run(&engine->loop, UV_RUN_NOWAIT);
        report_ended(engine);
}

/* -- guards ----------------------------------------------------------------------------------------------------- */

/* private-uid is enforced only for root, so it decides if the profile applies. */
static void apply_profile(cloche_engine *engine, enum cloche_profile profile)
{
        if (cloche_engine_guard(engine, CLOCHE_GUARD_PRIVATE_UID, NULL) != CLOCHE_GUARD_ENFORCED)
                engine->optional_guards |= cloche_profile_guards(profile);
}

uint32_t cloche_engine_optional(const cloche_engine *engine)
{
        return engine->optional_guards;
}

/* -- life ------------------------------------------------------------------------------------------------------- */

static void set_options(cloche_engine *engine, const struct cloche_engine_options *opt)
{
        long processors = sysconf(_SC_NPROCESSORS_ONLN);

        engine->options.runs_max = opt->runs_max ? opt->runs_max : (unsigned)(processors < 1 ? 2 : 2 * processors);
        engine->options.templates_bytes =
                opt->templates_bytes ? opt->templates_bytes
                                     : (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGE_SIZE) / 4;
        engine->options.templates_max = opt->templates_max ? opt->templates_max : TEMPLATES_MAX;
        engine->options.queue_max = opt->queue_max ? opt->queue_max : QUEUE_MAX;
        engine->options.base_forks = opt->base_forks ? opt->base_forks : BASE_FORKS;
        engine->options.spares = opt->spares == CLOCHE_NO_SPARES ? 0 : opt->spares ? opt->spares : POOL_SIZE;
        engine->options.boxes_ahead = opt->boxes_ahead == CLOCHE_NO_SPARES ? 0
                                      : opt->boxes_ahead                   ? opt->boxes_ahead
                                      : engine->options.spares             ? BOXES_AHEAD
                                                                           : 0;
        engine->optional_guards = opt->optional_guards;
}

void engine_set_network_env(struct cloche_engine *engine, json_t *env)
{
        json_decref(engine->network_env);
        engine->network_env = env;
}

void engine_set_network_names(struct cloche_engine *engine, json_t *names)
{
        json_decref(engine->network_names);
        engine->network_names = names;
}

int cloche_engine_new(const struct cloche_engine_options *opt, cloche_engine **ret, struct cloche_err *e)
{
        static const struct cloche_engine_options none;
        cloche_engine *engine = calloc(1, sizeof(*engine));
        int r;

        if (!engine)
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "start an engine");
        if (!opt)
                opt = &none;
        r = uv_loop_init(&engine->loop);
        if (r < 0) {
                free(engine);
                return err_os(e, CLOCHE_E_RESOURCE, -r, "make a loop");
        }
        TAILQ_INIT(&engine->templates);
        TAILQ_INIT(&engine->ended);
        TAILQ_INIT(&engine->with_open_ends);
        TAILQ_INIT(&engine->cold_waiting);
        TAILQ_INIT(&engine->cold_requested);
        set_options(engine, opt);
        engine->network_names = json_object();
        engine->probe_fd = engine->libexec_fd = engine->artifacts_fd = -EBADF;
        r = start(engine, opt, e);
        if (r == 0) {
                apply_profile(engine, opt->profile);
                r = watch(engine, e);
        }
        if (r < 0) {
                cloche_engine_free(engine);
                return r;
        }
        *ret = engine;
        return 0;
}

int cloche_languages(const struct cloche_engine_options *opt, char **ret, struct cloche_err *e)
{
        static const struct cloche_engine_options none;
        struct runtimes runtimes;
        char path[4096];
        json_t *list;
        int r;

        find_runtimes(opt ? opt : &none, path, sizeof(path));
        r = runtimes_load(path, &runtimes, e);
        if (r < 0)
                return r;
        list = runtimes_describe(&runtimes);
        *ret = json_dumps(list, JSON_COMPACT);
        json_decref(list);
        runtimes_done(&runtimes);
        return *ret ? 0 : err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "list the languages");
}

void cloche_engine_free(cloche_engine *engine)
{
        struct template *t;

        if (!engine)
                return;
        /* Free prefixes first: they stand on bases. */
        while ((t = TAILQ_LAST(&engine->templates, templates)))
                template_free(t);
        if (engine->is_watching) {
                uv_close((uv_handle_t *)&engine->keeper_poll, NULL);
                stream_turns_close(&engine->streams);
                uv_close((uv_handle_t *)&engine->ended_check, NULL);
                uv_close((uv_handle_t *)&engine->refill_timer, NULL);
                keeper_on_held(engine->keeper, NULL, NULL);
                uv_close((uv_handle_t *)&engine->held_timer, NULL);
                uv_close((uv_handle_t *)&engine->tidy_timer, NULL);
        }
        keeper_stop(engine->keeper);
        while (uv_run(&engine->loop, UV_RUN_ONCE)) /* closing handles, threads of freed runs */
                ;
        runtimes_done(&engine->runtimes);
        uv_loop_close(&engine->loop);
        fd_close(&engine->probe_fd);
        fd_close(&engine->libexec_fd);
        fd_close(&engine->artifacts_fd);
        for (size_t i = 0; i < engine->mount_roots.count; i++) {
                free(engine->mount_roots.paths[i]);
                free(engine->mount_roots.arguments[i]);
        }
        free(engine->mount_roots.paths);
        free(engine->mount_roots.arguments);
        free(engine->image);
        image_settings_free_all(&engine->image_settings);
        free(engine->libexec_dir);
        json_decref(engine->network_names);
        json_decref(engine->network_env);
        free(engine);
}

enum cloche_guard_state cloche_engine_guard(const cloche_engine *engine, enum cloche_guard guard,
                                            const char **ret_reason)
{
        const struct keeper_guard *row = keeper_guard(engine->keeper, guard);

        if (ret_reason)
                *ret_reason = row->reason;
        return row->state >= CLOCHE_GUARD_STATE_COUNT ? CLOCHE_GUARD_ABSENT : (enum cloche_guard_state)row->state;
}
