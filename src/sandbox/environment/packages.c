/* Install packages for new sandboxes. The steps are requests of the principal, like those of
 * clients: create a sandbox, install, stop it, which saves its files, and take the archive as a
 * layer. Runs in: cloched-engine, on its loop, with the rights of the daemon's user. */
#include "packages.h"
#include "layer.h"

#include "base/err.h"
#include "engine/box/network-names.h"
#include "engine/warm/artifact.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define NAME_PREFIX "packages--" /* of sandboxes that are ours, then digits */
#define NAME_DIGITS 40
#define PACKAGES_MAX 200 /* of each kind */
#define PACKAGE_BYTES_MAX 200
#define INSTALL_MS 600000
#define SAID_MAX 120 /* bytes of a tool's last lines in a message, which has 248; all are in `output` */
#define REFUSED_BYTES 200
#define PACKAGE_CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~:/?#[]@!$&()*+,;=%<>^| "

static const struct kind {
        const char *name, *preset, *program, *command;
        int is_roots; /* of sandboxes with root; the others are of those without */
} kinds[] = {
#define CLOCHE_PACKAGES(kind, preset, program, install, ...) {kind, preset, program, install, 0},
#define CLOCHE_SYSTEM_PACKAGES(kind, preset, program, install) {kind, preset, program, install, 1},
#include <cloche/packages.def>
#undef CLOCHE_PACKAGES
#undef CLOCHE_SYSTEM_PACKAGES
};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

/* In this order; after a failure the last one. */
enum step { STEP_CLEAR, STEP_CREATE, STEP_INSTALL, STEP_STOP, STEP_DELETE };

struct waiter {
        TAILQ_ENTRY(waiter) link;
        struct package_job *job;
        struct sandbox_request *request;
        packages_then then;
};

struct package_job {
        TAILQ_ENTRY(package_job) link;
        struct sandboxes *all;
        int64_t principal;
        char key[PACKAGES_KEY_SIZE], name[SANDBOX_NAME_MAX];
        json_t *packages, *create; /* parameters of sandbox.create */
        enum step step;
        size_t kind; /* STEP_INSTALL: index of kinds */
        struct sandbox_request *inner;
        struct cloche_err error;
        json_t *said; /* the last lines of a tool that failed; or NULL */
        TAILQ_HEAD(waiters, waiter) waiters;
};

/* -- the packages ---------------------------------------------------------------------------------------------- */

static int check_package(const char *kind, size_t at, const json_t *item, struct cloche_err *e)
{
        const char *text = json_string_value(item);

        if (!text || !*text || *text == '-' || *text == ' ' || json_string_length(item) > PACKAGE_BYTES_MAX ||
            strspn(text, PACKAGE_CHARACTERS) != json_string_length(item))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "packages.%s[%zu] must be a package as its tool takes it, of at most %d bytes, without "
                               "quotes and no option",
                               kind, at, PACKAGE_BYTES_MAX);
        return 0;
}

static int by_text(const void *a, const void *b)
{
        return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* *ret: the list in order, each package once. */
static int sort_list(const char *kind, const json_t *list, json_t **ret, struct cloche_err *e)
{
        size_t count = json_array_size(list);
        const char *texts[PACKAGES_MAX];
        int r = 0;

        if (!json_is_array(list) || count > PACKAGES_MAX)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "packages.%s must be a list of at most %d packages", kind,
                               PACKAGES_MAX);
        for (size_t i = 0; r == 0 && i < count; i++) {
                texts[i] = json_string_value(json_array_get(list, i));
                r = check_package(kind, i, json_array_get(list, i), e);
        }
        if (r < 0)
                return r;
        qsort(texts, count, sizeof(texts[0]), by_text);
        *ret = json_array();
        for (size_t i = 0; i < count; i++)
                if (i == 0 || strcmp(texts[i], texts[i - 1]) != 0)
                        json_array_append_new(*ret, json_string(texts[i]));
        return 0;
}

static int check_kind(const char *name, int has_root, struct cloche_err *e)
{
        size_t i = 0;

        while (i < KINDS && strcmp(kinds[i].name, name) != 0)
                i++;
        if (i == KINDS)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "packages: there is no kind '%.40s', expected pip, npm, gem or apt", name);
        if (kinds[i].is_roots && !has_root)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "packages.%s are installed by root: make the sandbox with root", name);
        if (!kinds[i].is_roots && has_root)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "packages.%s: a sandbox with root begins with packages of apt alone: install others by "
                               "commands, or leave root out",
                               name);
        return 0;
}

static int has_root(const struct sandbox_request *request)
{
        return json_is_true(json_object_get(request->params, "root"));
}

/* *ret: the lists that are not empty. */
static int sort_all(const json_t *packages, int has_root, json_t **ret, struct cloche_err *e)
{
        json_t *sorted = json_object(), *list, *value;
        const char *name;
        int r = json_is_object(packages) ? 0 : err_set(e, CLOCHE_E_INVALID_ARGUMENT, "packages must be an object");

        json_object_foreach ((json_t *)(uintptr_t)packages, name, value) {
                r = r == 0 ? check_kind(name, has_root, e) : r;
                if (r == 0 && (r = sort_list(name, value, &list, e)) == 0) {
                        if (json_array_size(list) > 0)
                                json_object_set(sorted, name, list);
                        json_decref(list);
                }
        }
        if (r < 0)
                json_decref(sorted);
        else
                *ret = sorted;
        return r;
}

/* The sandbox's own policy, and the presets of which hosts are known. */
static json_t *network_for(const struct sandbox_request *request, const json_t *packages)
{
        json_t *own = json_object_get(request->params, "network");
        json_t *policy = json_deep_copy(own ? own : request->all->network), *allow = json_object_get(policy, "allow");

        if (!json_is_array(allow)) {
                json_object_set_new(policy, "allow", json_array());
                allow = json_object_get(policy, "allow");
        }
        for (size_t i = 0; i < KINDS; i++) {
                json_t *preset = json_pack("{s:[s]}", "allow", kinds[i].preset), *known = NULL;

                if (json_object_get(packages, kinds[i].name) &&
                    network_names_expand(request->all->engine->network_names, preset, &known, NULL) == 0)
                        json_array_append_new(allow, json_string(kinds[i].preset));
                json_decref(known);
                json_decref(preset);
        }
        return policy;
}

/* The same as rules of hosts: an operator may change those of a preset. A policy that is none is
 * refused when the sandbox of the installation is made. */
static json_t *rules_for(const struct sandbox_request *request, const json_t *packages)
{
        json_t *policy = network_for(request, packages), *rules = NULL;

        if (network_names_expand(request->all->engine->network_names, policy, &rules, NULL) < 0)
                return policy;
        json_decref(policy);
        return rules;
}

/* The interpreters as an upgrade changes them. Running each for its version would cost a box,
 * and numbers of files are others in each start of a container. NULL: the digest of an image
 * of the store names them. */
static json_t *programs_of(const struct sandboxes *all, const struct image *image, const json_t *packages)
{
        const char *tree = all->engine->image;
        json_t *programs = image->name[0] || (tree[0] && tree[0] != '/') ? NULL : json_object();

        for (size_t i = 0; programs && i < KINDS; i++) {
                char path[PATH_MAX];
                struct stat st;

                snprintf(path, sizeof(path), "%s%s", tree, kinds[i].program);
                if (!json_object_get(packages, kinds[i].name) || stat(path, &st) < 0) /* then nothing is installed */
                        continue;
                json_object_set_new(programs, kinds[i].program,
                                    json_pack("[I, I, I]", (json_int_t)st.st_size, (json_int_t)st.st_mtim.tv_sec,
                                              (json_int_t)st.st_mtim.tv_nsec));
        }
        return programs;
}

/* All that decides on the files: whose they are, the image, the packages, and from where.
 * Rules of a network decide what the installation fetched: with fewer of them another
 * sandbox must not get the same. */
static int make_key(const struct sandbox_request *request, const struct image *image, const json_t *packages,
                    char ret[PACKAGES_KEY_SIZE], struct cloche_err *e)
{
        const struct sandboxes *all = request->all;
        json_t *key = json_pack("{s:b, s:I, s:s, s:s, s:o*, s:O*, s:O, s:O*, s:O, s:O*, s:o}", "root",
                                has_root(request), "principal", (json_int_t)request->principal, "image", image->name,
                                "tree", all->engine->image, "programs", programs_of(all, image, packages),
                                "imageSettings", json_object_get(request->params, "imageSettings"), "packages",
                                packages, "env", json_object_get(request->params, "env"), "index", all->env, "gemrc",
                                all->gemrc, "network", rules_for(request, packages));
        char *text = key ? json_dumps(key, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
        struct artifact_part part = {text, text ? strlen(text) : 0};

        if (text)
                artifact_key(&part, 1, ret);
        free(text);
        json_decref(key);
        return text ? 0 : err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "find the packages");
}

/* -- names of sandboxes that are ours --------------------------------------------------------------------------- */

static int is_ours(const char *name)
{
        const char *digits = name + sizeof(NAME_PREFIX) - 1;

        return strncmp(name, NAME_PREFIX, sizeof(NAME_PREFIX) - 1) == 0 && strlen(digits) == NAME_DIGITS &&
               strspn(digits, "0123456789abcdef") == NAME_DIGITS;
}

int sandbox_packages_check_name(const struct sandboxes *all, int64_t principal, const char *name, struct cloche_err *e)
{
        const struct package_job *job;

        if (!is_ours(name))
                return 0;
        TAILQ_FOREACH (job, &all->package_jobs, link)
                if (job->principal == principal && job->step == STEP_CREATE && strcmp(job->name, name) == 0)
                        return 0;
        return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                       "the name \"%s\" is one of sandboxes in which packages are installed, which are deleted "
                       "afterwards: choose another name",
                       name);
}

/* -- the steps ------------------------------------------------------------------------------------------------ */

static void take_step(struct package_job *job);

static void job_free(struct package_job *job)
{
        struct waiter *waiter;

        while ((waiter = TAILQ_FIRST(&job->waiters))) {
                TAILQ_REMOVE(&job->waiters, waiter, link);
                free(waiter);
        }
        json_decref(job->packages);
        json_decref(job->create);
        json_decref(job->said);
        free(job);
}

static void finish(struct package_job *job)
{
        struct waiter *waiter;

        TAILQ_REMOVE(&job->all->package_jobs, job, link);
        while ((waiter = TAILQ_FIRST(&job->waiters))) {
                struct sandbox_request *request = waiter->request;
                struct cloche_err e = job->error;
                packages_then then = waiter->then;

                TAILQ_REMOVE(&job->waiters, waiter, link);
                free(waiter);
                request->cancel = NULL;
                request->state = NULL;
                if (e.code || then(request, &e) < 0)
                        sandbox_request_fail(request, &e, job->said ? json_pack("{s:O}", "output", job->said) : NULL);
        }
        job_free(job);
}

static void fail(struct package_job *job, const struct cloche_err *e)
{
        if (job->error.code == 0)
                job->error = *e;
        if (job->step == STEP_DELETE) {
                finish(job);
                return;
        }
        job->step = STEP_DELETE;
        take_step(job);
}

/* Each package is in quotes, and none has one in it. The guest's shell reads the command. */
static json_t *install_params(const struct package_job *job)
{
        const struct kind *kind = &kinds[job->kind];
        const json_t *list = json_object_get(job->packages, kind->name), *item;
        char *command = NULL;
        size_t size, i;
        FILE *file = open_memstream(&command, &size);
        json_t *params;

        if (!file)
                return NULL;
        fprintf(file, "set -o pipefail; %s", kind->command);
        json_array_foreach (list, i, item)
                fprintf(file, " '%s'", json_string_value(item));
        fprintf(file, kind->is_roots ? " 2>&1 | tail -n 12 && rm -rf /var/lib/apt/lists/* && apt-get clean"
                                     : " 2>&1 | tail -n 12 && rm -rf /tmp/.npm ~/.npm ~/.cache");
        params = fclose(file) == 0 ? json_pack("{s:s, s:s, s:i}", "sandbox", job->name, "command", command, "timeoutMs",
                                               INSTALL_MS)
                                   : NULL;
        free(command);
        return params;
}

/* The tool's output; without any, the shell's message: the image may lack `tail`. */
static json_t *output_of(const json_t *result)
{
        json_t *text = json_object_get(result, "stdout");

        return json_is_string(text) && json_string_length(text) == 0 ? json_object_get(result, "stderr") : text;
}

/* The last bytes of the output, from the beginning of a line. */
static const char *last_lines(const json_t *result)
{
        const char *text = json_string_value(output_of(result));
        size_t size = text ? strlen(text) : 0;
        const char *line = size > SAID_MAX ? strchr(text + size - SAID_MAX, '\n') : text;

        return line ? line + (*line == '\n') : text ? text + size - SAID_MAX / 2 : "its output is no text";
}

/* "" or the way out, which is no command for the sandbox of the installation: that one is gone
 * by then. */
static void explain_refused(const struct kind *kind, const json_t *denied, char *ret, size_t size)
{
        const char *host = json_string_value(json_object_get(denied, "host"));
        const json_t *allow = json_object_get(denied, "allow");
        const char *rule = json_string_value(json_array_get(allow, 0)),
                   *more = json_string_value(json_array_get(allow, 1));

        host = host ? host : json_string_value(json_object_get(denied, "address"));
        ret[0] = '\0';
        if (host && rule)
                snprintf(ret, size, ", the network refused %.50s (the rule%s %.50s%s%.50s permit%s it%s%s%s)", host,
                         more ? "s" : "", rule, more ? " and " : "", more ? more : "", more ? "" : "s",
                         kind->is_roots ? "" : ", or cloched --package-index ", kind->is_roots ? "" : kind->name,
                         kind->is_roots ? "" : "=URL");
        else if (host)
                snprintf(ret, size, ", the network refused %.60s", host);
}

static int check_installed(struct package_job *job, const json_t *result, struct cloche_err *e)
{
        char refused[REFUSED_BYTES];

        if (json_integer_value(json_object_get(result, "exitCode")) == 0)
                return 0;
        if (json_is_string(output_of(result)))
                job->said = json_incref(output_of(result));
        explain_refused(&kinds[job->kind], json_array_get(json_object_get(result, "denials"), 0), refused,
                        sizeof(refused));
        err_set(e, CLOCHE_E_PACKAGES, "packages.%s could not be installed%s%s: %s", kinds[job->kind].name, refused,
                json_is_true(json_object_get(result, "timedOut")) ? ", it took more than ten minutes" : "",
                last_lines(result));
        for (size_t size = strlen(e->msg); size > 0 && isspace((unsigned char)e->msg[size - 1]);)
                e->msg[--size] = '\0';
        return -(int)e->code;
}

static int keep(const struct package_job *job, struct cloche_err *e)
{
        const struct sandbox *s = sandbox_find(job->all, job->principal, job->name);
        json_t *about;
        int r;

        if (!s)
                return err_set(e, CLOCHE_E_SANDBOX_ENDED, "the sandbox in which packages were installed was deleted");
        about = json_pack("{s:O, s:O*}", "packages", job->packages, "image", json_object_get(job->create, "image"));
        r = sandbox_layer_keep(s, job->key, about, e);
        json_decref(about);
        return r;
}

/* Go to the next list, or to the next step. */
static void advance(struct package_job *job)
{
        job->kind += job->step == STEP_INSTALL;
        while (job->step <= STEP_INSTALL && job->kind < KINDS && !json_object_get(job->packages, kinds[job->kind].name))
                job->kind++;
        if (job->step != STEP_INSTALL || job->kind == KINDS)
                job->step++;
        take_step(job);
}

static void on_event(void *data, const char *event, const json_t *about, const struct buf *attachments)
{
        (void)data;
        (void)event;
        (void)about;
        (void)attachments;
}

static void on_result(void *data, const json_t *result, const struct buf *attachments)
{
        struct package_job *job = data;
        struct cloche_err e;
        int r = 0;

        (void)attachments;
        job->inner = NULL;
        if (job->step == STEP_DELETE) {
                finish(job);
                return;
        }
        if (job->step == STEP_INSTALL)
                r = check_installed(job, result, &e);
        else if (job->step == STEP_STOP)
                r = keep(job, &e);
        if (r < 0)
                fail(job, &e);
        else
                advance(job);
}

static void on_fail(void *data, const struct cloche_err *e, const json_t *about)
{
        struct package_job *job = data;

        (void)about;
        job->inner = NULL;
        if (job->step == STEP_CLEAR) /* the usual case: there is none */
                advance(job);
        else
                fail(job, e);
}

static void take_step(struct package_job *job)
{
        static const char *const methods[] = {[STEP_CLEAR] = "sandbox.delete",
                                              [STEP_CREATE] = "sandbox.create",
                                              [STEP_INSTALL] = "exec",
                                              [STEP_STOP] = "sandbox.stop",
                                              [STEP_DELETE] = "sandbox.delete"};
        static const struct sandbox_face face = {.event = on_event, .result = on_result, .fail = on_fail};
        json_t *params = job->step == STEP_CREATE    ? json_incref(job->create)
                         : job->step == STEP_INSTALL ? install_params(job)
                                                     : json_pack("{s:s}", "sandbox", job->name);
        struct cloche_err e = {0};
        int r = params ? sandboxes_request(job->all, job->principal, methods[job->step], params, NULL, &face, job,
                                           &job->inner, &e)
                       : err_os(&e, CLOCHE_E_RESOURCE, ENOMEM, "install packages");

        json_decref(params);
        if (r < 0 && job->step == STEP_CLEAR)
                advance(job);
        else if (r < 0)
                fail(job, &e);
}

/* -- jobs ----------------------------------------------------------------------------------------------------- */

static struct package_job *job_new(const struct sandbox_request *request, const char *key, json_t *packages)
{
        struct package_job *job = calloc(1, sizeof(*job));
        const json_t *params = request->params;

        if (!job)
                return NULL;
        job->all = request->all;
        job->principal = request->principal;
        strcpy(job->key, key);
        snprintf(job->name, sizeof(job->name), NAME_PREFIX "%.*s", NAME_DIGITS, key);
        job->packages = json_incref(packages);
        /* The commands of the image belong to the sandboxes that get the packages. */
        job->create =
                json_pack("{s:s, s:b, s:o, s:O*, s:o*, s:O*, s:O*}", "sandbox", job->name, "root", has_root(request),
                          "network", network_for(request, packages), "image", json_object_get(params, "image"),
                          "imageSettings", image_settings_without_startup(json_object_get(params, "imageSettings")),
                          "env", json_object_get(params, "env"), "limits", json_object_get(params, "limits"));
        TAILQ_INIT(&job->waiters);
        if (job->create)
                return job;
        job_free(job);
        return NULL;
}

static void cancel(struct sandbox_request *request)
{
        struct waiter *waiter = request->state;

        TAILQ_REMOVE(&waiter->job->waiters, waiter, link);
        free(waiter);
}

static struct package_job *find(const struct sandboxes *all, const char *key)
{
        struct package_job *job;

        TAILQ_FOREACH (job, &all->package_jobs, link)
                if (strcmp(job->key, key) == 0)
                        return job;
        return NULL;
}

/* The job goes on without the request if the client leaves: its layer is of use to the next one. */
static int wait_for(struct sandbox_request *request, const char *key, json_t *packages, packages_then then,
                    struct cloche_err *e)
{
        struct waiter *waiter = malloc(sizeof(*waiter));
        struct package_job *known = find(request->all, key), *job = known ? known : job_new(request, key, packages);

        if (!waiter || !job) {
                free(waiter);
                if (job && !known)
                        job_free(job);
                return err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "install packages");
        }
        *waiter = (struct waiter){.job = job, .request = request, .then = then};
        TAILQ_INSERT_TAIL(&job->waiters, waiter, link);
        request->state = waiter;
        request->cancel = cancel;
        if (!known) {
                TAILQ_INSERT_TAIL(&request->all->package_jobs, job, link);
                take_step(job);
        }
        return 1;
}

int sandbox_packages_find(struct sandbox_request *request, const struct image *image, packages_then then,
                          char ret_key[PACKAGES_KEY_SIZE], struct cloche_err *e)
{
        json_t *packages = NULL;
        int r = sort_all(json_object_get(request->params, "packages"), has_root(request), &packages, e);

        if (r < 0)
                return r;
        ret_key[0] = '\0';
        if (json_object_size(packages) == 0)
                r = 0;
        else if (request->all->state_fd < 0)
                r = err_set(e, CLOCHE_E_STATE,
                            "packages are kept in the daemon's state directory, and it has none: start it with "
                            "--state-dir, or install them in the sandbox");
        else
                r = make_key(request, image, packages, ret_key, e);
        if (r == 0 && ret_key[0] && !sandbox_layer_exists(request->all, request->principal, ret_key))
                r = wait_for(request, ret_key, packages, then, e);
        json_decref(packages);
        return r;
}

void sandbox_packages_tidy(struct sandboxes *all)
{
        struct sandbox *s, *next;

        for (s = TAILQ_FIRST(&all->list); s; s = next) {
                next = TAILQ_NEXT(s, link);
                if (is_ours(s->name) && !s->is_deleted)
                        sandbox_delete(s);
        }
}

void sandbox_packages_free(struct sandboxes *all)
{
        struct package_job *job;

        while ((job = TAILQ_FIRST(&all->package_jobs))) {
                TAILQ_REMOVE(&all->package_jobs, job, link);
                if (job->inner)
                        sandbox_request_cancel(job->inner);
                job_free(job);
        }
}
