/* Prefixes from which contexts are forked. Runs in: cloched-engine, on its loop, with the rights
 * of the daemon's user. */
#include "notebook.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fd.h"
#include "engine/warm/prefix.h"
#include "sandbox/core/sandboxes.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define SETUP_WALL_MS 120000 /* for the first import of all modules, from a cold disk */
#define SETUP_MEMORY_BYTES (UINT64_C(2) << 30)
#define SETUP_FILE_BYTES (1u << 20)

struct notebook {
        SLIST_ENTRY(notebook) link;
        const struct runtime *runtime;
        struct image image;
        int64_t principal;
        uint64_t used_ns;
        cloche_prefix *prefix;
};

static void notebook_free(struct sandboxes *all, struct notebook *n)
{
        SLIST_REMOVE(&all->notebooks, n, notebook, link);
        cloche_prefix_free(n->prefix);
        image_drop(&n->image);
        free(n);
}

void context_notebooks_tidy(struct sandboxes *all, uint64_t now_ns)
{
        struct notebook *n = SLIST_FIRST(&all->notebooks), *next;

        for (; n; n = next) {
                next = SLIST_NEXT(n, link);
                if (n->image.name[0] && now_ns - n->used_ns > IMAGE_IDLE_NS)
                        notebook_free(all, n);
        }
}

void context_notebooks_free(struct sandboxes *all)
{
        struct notebook *n;

        while ((n = SLIST_FIRST(&all->notebooks)))
                notebook_free(all, n);
}

/* Drop the one of this principal that was not used for longest, if there is no room for another.
 * Contexts that were forked from it live on. */
static void make_room(struct sandboxes *all, int64_t principal)
{
        struct notebook *n, *oldest = NULL;
        unsigned count = 0;

        SLIST_FOREACH (n, &all->notebooks, link)
                if (n->principal == principal && n->image.name[0]) {
                        count++;
                        if (!oldest || n->used_ns < oldest->used_ns)
                                oldest = n;
                }
        if (oldest && count >= all->engine->options.templates_max)
                notebook_free(all, oldest);
}

static int read_setup(const struct runtime *runtime, char **ret, size_t *ret_size, struct cloche_err *e)
{
        char path[4200];
        _cleanup_fd_ int fd = -EBADF;
        struct stat st = {0};
        int r;

        snprintf(path, sizeof(path), "%s/%s", runtime->directory, runtime->notebook);
        fd = openat(runtime->directory_fd, runtime->notebook, O_RDONLY | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &st) < 0 || st.st_size > SETUP_FILE_BYTES)
                return err_os(e, CLOCHE_E_MISSING_RUNTIME, st.st_size ? EFBIG : errno,
                              "read the set-up of contexts, %s", path);
        *ret = malloc((size_t)st.st_size + 1);
        r = *ret ? fd_read_full(fd, *ret, (size_t)st.st_size) : -ENOMEM;
        if (r < 0) {
                free(*ret);
                return err_os(e, CLOCHE_E_MISSING_RUNTIME, -r, "read the set-up of contexts, %s", path);
        }
        *ret_size = (size_t)st.st_size;
        return 0;
}

static int make(struct sandboxes *all, int64_t principal, const struct image *image, const struct runtime *runtime,
                struct notebook **ret, struct cloche_err *e)
{
        struct cloche_prefix_options opt = {
                .language = runtime->name,
                .filename = runtime->notebook,
                .image = image->name,
                .image_settings = image->name[0] && image->settings ? image->settings->text : NULL,
                .tenant = principal,
                .limits = {.wall_ms = SETUP_WALL_MS, .cpu_ms = SETUP_WALL_MS, .memory_bytes = SETUP_MEMORY_BYTES},
        };
        struct notebook *n = calloc(1, sizeof(*n));
        char *code = NULL;
        int r = n ? read_setup(runtime, &code, &opt.code_size, e)
                  : err_os(e, CLOCHE_E_RESOURCE, ENOMEM, "make a context");

        opt.code = code;
        if (r == 0)
                r = prefix_make(all->engine, &opt, &n->prefix, e);
        free(code);
        if (r < 0) {
                free(n);
                return r;
        }
        make_room(all, principal);
        n->runtime = runtime;
        n->image = *image;
        image_hold(&n->image);
        n->principal = principal;
        SLIST_INSERT_HEAD(&all->notebooks, n, link);
        *ret = n;
        return 0;
}

static int refuse(const struct sandboxes *all, const char *language, struct cloche_err *e)
{
        const struct runtimes *runtimes = &all->engine->runtimes;
        char names[256] = "";

        for (size_t i = 0; i < runtimes->count; i++)
                if (runtimes->rows[i].notebook) {
                        size_t used = strlen(names);

                        snprintf(names + used, sizeof(names) - used, "%s%s", used ? ", " : "", runtimes->rows[i].name);
                }
        return err_set(e, CLOCHE_E_UNKNOWN_LANGUAGE,
                       "there are no contexts of the language \"%.40s\", expected one of: %s", language, names);
}

int context_runtime_find(const struct sandboxes *all, const char *language, const struct runtime **ret,
                         struct cloche_err *e)
{
        if (runtimes_find(&all->engine->runtimes, language, ret, NULL) < 0 || !(*ret)->notebook)
                return refuse(all, language, e);
        return 0;
}

int context_notebook_find(struct sandboxes *all, int64_t principal, const struct image *image, const char *language,
                          const struct runtime **ret_runtime, struct template **ret, struct cloche_err *e)
{
        const struct runtime *runtime;
        struct notebook *n;
        int r = context_runtime_find(all, language, &runtime, e);

        if (r < 0)
                return r;
        SLIST_FOREACH (n, &all->notebooks, link)
                if (n->runtime == runtime && n->principal == principal && image_equals(&n->image, image))
                        break;
        r = n ? 0 : make(all, principal, image, runtime, &n, e);
        if (r < 0)
                return r;
        n->used_ns = clock_now_ns();
        *ret_runtime = runtime;
        *ret = n->prefix->template;
        return 0;
}

/* The set-up's modules come from its image, and a context reads further ones from its sandbox's. */
int context_prefix_check(const struct sandbox *s, const char *name, const cloche_prefix *prefix, const char *language,
                         struct cloche_err *e)
{
        const struct template *t = prefix->template;

        if (t->tenant != s->principal)
                return err_set(e, CLOCHE_E_NOT_FOUND, "there is no prefix \"%.64s\": make it (prefix.create)", name);
        if (language && runtime_is(t->runtime, language) == 0)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "the prefix \"%.64s\" is of %s, not of %.40s: leave the language out", name,
                               t->runtime->name, language);
        if (prefix->bare)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "the prefix \"%.64s\" is a bare one, which has no cells: make it without bare", name);
        if (strcmp(t->image.name, s->image.name) != 0)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "the prefix \"%.64s\" is in another image than the sandbox: make both of the same image",
                               name);
        return 0;
}

int context_prefix_find(struct sandbox *s, const cloche_prefix *prefix, struct template **ret, struct cloche_err *e)
{
        struct setup *setup = prefix->template->setup;
        const struct runtime *runtime;
        struct template *notebook;
        int r = context_notebook_find(s->all, s->principal, &s->image, prefix->template->runtime->name, &runtime,
                                      &notebook, e);

        if (r < 0)
                return r;
        setup->refs++;
        return template_on(notebook, setup, ret, e);
}

int sandboxes_warm(struct sandboxes *all, int64_t principal, const char *languages, struct cloche_err *e)
{
        const struct image own = {.settings = all->engine->own_settings};
        const struct runtime *runtime;
        struct template *template;
        char language[64];
        int r = 0;

        while (r == 0 && *languages) {
                size_t size = strcspn(languages, ",");

                snprintf(language, sizeof(language), "%.*s",
                         (int)(size < sizeof(language) ? size : sizeof(language) - 1), languages);
                r = context_notebook_find(all, principal, &own, language, &runtime, &template, e);
                if (r == 0)
                        template_start(template);
                languages += size + (languages[size] == ',');
        }
        return r;
}
