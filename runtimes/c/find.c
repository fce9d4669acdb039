#include "find.h"
#include "compile.h"
#include "invoke.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define FOUND_MAX 64

static int append_text(char *to, size_t room, const char *format, ...) __attribute__((format(printf, 3, 4)));
static int append_text(char *to, size_t room, const char *format, ...)
{
        size_t size = strlen(to);
        va_list list;

        va_start(list, format);
        vsnprintf(to + size, room - size, format, list);
        va_end(list);
        return 0;
}

int find_is_main(const struct function *f)
{
        return strcmp(f->name, compile_body_name(0)) == 0 || strcmp(f->name, compile_body_name(1)) == 0;
}

/* "a::b" is also called "b" if that is unambiguous. */
int find_answers_to(const struct function *f, const char *name)
{
        size_t size = strlen(f->name), part = strlen(name);

        return strcmp(f->name, name) == 0 || (size > part + 2 && strcmp(f->name + size - part, name) == 0 &&
                                              memcmp(f->name + size - part - 2, "::", 2) == 0);
}

static int takes(struct loaded *l, struct function *f, size_t given)
{
        size_t least, most;

        program_read_function(l->program, f);
        invoke_arity(f, &least, &most);
        return given >= least && given <= most;
}

size_t find_given_count(const struct agent_request *q)
{
        return json_array_size(q->args) - json_array_size(q->holes) + json_object_size(q->kwargs);
}

struct candidate {
        struct function *f;
        unsigned char fit[INVOKE_ARGUMENTS_MAX];
};

/* The compiler's rule: no argument fits worse, and one fits better. */
static int is_better(const struct candidate *a, const struct candidate *b)
{
        int better = 0;

        for (size_t i = 0; i < INVOKE_ARGUMENTS_MAX; i++) {
                if (a->fit[i] > b->fit[i])
                        return 0;
                better |= a->fit[i] < b->fit[i];
        }
        return better;
}

/* The function that is better than each other one; NULL: there is none. */
static struct function *best_of(const struct candidate *candidates, size_t count)
{
        for (size_t i = 0; i < count; i++) {
                size_t beaten = 0;

                for (size_t j = 0; j < count; j++)
                        beaten += j != i && is_better(&candidates[i], &candidates[j]);
                if (beaten + 1 == count)
                        return candidates[i].f;
        }
        return NULL;
}

/* Among functions of one name the one that takes that many arguments, or else the one they fit
 * best. NULL after an error. */
static struct function *choose(struct loaded *l, struct function **found, size_t count, const struct agent_request *q,
                               struct agent_reply *reply)
{
        struct candidate candidates[FOUND_MAX];
        struct function *only = NULL;
        size_t fitting = 0, suiting = 0;
        char list[700] = "";

        for (size_t i = 0; i < count; i++)
                if (takes(l, found[i], find_given_count(q))) {
                        fitting++;
                        only = found[i];
                }
        /* For a single function the call itself reports why it fails. */
        if (fitting == 1)
                return only;
        for (size_t i = 0; fitting > 1 && i < count; i++)
                if (takes(l, found[i], find_given_count(q)) && invoke_fit(q, found[i], candidates[suiting].fit))
                        candidates[suiting++].f = found[i];
        only = best_of(candidates, suiting);
        if (only)
                return only;
        for (size_t i = 0; i < count; i++) {
                program_read_function(l->program, found[i]);
                append_text(list, sizeof(list), "%s%s", i ? "; " : "", found[i]->prototype);
        }
        if (fitting > 0 && suiting == 0)
                agent_throw(reply, "TypeError", NULL, "none of the functions called '%s' takes such arguments: %s",
                            q->function, list);
        else
                agent_throw(reply, "TypeError", NULL,
                            "%s of the functions called '%s' can be called with %zu argument%s: %s",
                            fitting ? "several" : "none", q->function, find_given_count(q),
                            find_given_count(q) == 1 ? "" : "s", list);
        return NULL;
}

static int is_called(const struct function *f, const char *name, int exactly)
{
        return exactly ? strcmp(f->name, name) == 0 : find_answers_to(f, name);
}

static int is_for_all(const struct function *f)
{
        return f->is_public && !f->needs_object && !find_is_main(f);
}

/* Functions of that name; without a name, functions that can be called without naming them. */
static size_t collect(struct loaded *l, const char *name, int exactly, struct function **ret, size_t room)
{
        size_t count, found = 0;
        struct function *all = program_functions(l->program, &count);

        for (size_t i = 0; i < count && found < room; i++)
                if (name ? is_called(&all[i], name, exactly) : is_for_all(&all[i]))
                        ret[found++] = &all[i];
        return found;
}

int find_has(struct loaded *l, const char *name)
{
        struct function *found;

        return collect(l, name, 0, &found, 1) > 0;
}

struct function *find_main(struct loaded *l)
{
        size_t count;
        struct function *all = program_functions(l->program, &count);

        for (size_t i = 0; i < count; i++)
                if (find_is_main(&all[i]))
                        return &all[i];
        return NULL;
}

static struct function *refuse_choice(struct loaded *l, struct function **found, size_t count,
                                      struct agent_reply *reply)
{
        char list[700] = "";

        for (size_t i = 0; i < count; i++) {
                program_read_function(l->program, found[i]);
                append_text(list, sizeof(list), "%s%s", i ? ", " : "", found[i]->name);
        }
        agent_throw(reply, "NameError", NULL, "the code has several functions, name one of them: %s", list);
        return NULL;
}

static struct function *refuse_name(struct loaded *l, const char *name, struct agent_reply *reply)
{
        struct function *public[FOUND_MAX];
        size_t count = collect(l, NULL, 0, public, FOUND_MAX);
        char list[600] = "";

        for (size_t i = 0; i < count; i++)
                append_text(list, sizeof(list), "%s%s", i ? ", " : "", public[i] -> name);
        agent_throw(reply, "NameError", NULL, "the code has no function '%.80s' that could be called%s%s", name,
                    count ? ", it has: " : "", list);
        return NULL;
}

/* The requested function; NULL after an error. */
struct function *find_function(struct loaded *l, const struct agent_request *q, struct agent_reply *reply)
{
        struct function *found[FOUND_MAX];
        size_t count =
                q->function ? collect(l, q->function, 1, found, FOUND_MAX) : collect(l, NULL, 0, found, FOUND_MAX);

        if (q->function && count == 0)
                count = collect(l, q->function, 0, found, FOUND_MAX);
        if (q->function && count == 0)
                return refuse_name(l, q->function, reply);
        if (!q->function && count == 0) {
                found[0] = find_main(l);
                if (!found[0]) {
                        agent_throw(reply, "NameError", NULL,
                                    "the code has no function that could be called (a template must be used in it)");
                        return NULL;
                }
                count = 1;
        }
        for (size_t i = 1; !q->function && i < count; i++)
                if (strcmp(found[i]->name, found[0]->name) != 0)
                        return refuse_choice(l, found, count, reply);
        if (count > 1) {
                struct agent_request named = *q;

                named.function = found[0]->name;
                return choose(l, found, count, &named, reply);
        }
        program_read_function(l->program, found[0]);
        return found[0];
}
