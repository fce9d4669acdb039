#include "invoke.h"
#include "fit.h"
#include "passing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One parameter of a call in progress. */
struct slot {
        const char *name; /* never NULL */
        const struct type *type;
        const json_t *given;
        size_t argument; /* its index: by position, then by name */
        int is_length;   /* of the pointer before it */
        int is_out;      /* it was omitted, and receives an output */
        int was_list;    /* the pointer's argument was a list of values, not one */
        void *value;     /* the argument, type->size bytes, or the address of an object */
        size_t count;    /* elements at the pointer */
        char own_name[24];
};

struct call {
        const struct invocation *v;
        const struct function *f;
        struct slot slots[INVOKE_ARGUMENTS_MAX];
        size_t fixed, count;        /* slots: parameters of the prototype, and with the variadic ones */
        struct slot *result_length; /* holds the number of elements that the result points to */
        void *result;
};

static int refuse(const struct call *c, const char *what)
{
        return agent_throw(c->v->reply, "TypeError", NULL, "%s: %s", what, c->f->prototype);
}

static int refuse_argument(const struct call *c, const char *name, const char *what)
{
        return agent_throw(c->v->reply, "TypeError", NULL, "argument '%.60s' %s: %s", name, what, c->f->prototype);
}

/* -- roles of parameters -------------------------------------------------------------------------------------- */

static int is_pointer(const struct type *type)
{
        return type->kind == TYPE_POINTER || type->kind == TYPE_REFERENCE;
}

/* A pointer or reference through which a function can return something. */
static int can_bring(const struct slot *slot)
{
        return is_pointer(slot->type) && !slot->type->target_constant && slot->type->inner[0]->kind != TYPE_REFUSED;
}

static int is_length_of_result(const struct function *f, const struct slot *slot)
{
        static const char *const of[] = {"out", "result", "ret", "returned"};
        const struct type *type = slot->type;

        if (f->result->kind != TYPE_POINTER || f->result->inner[0]->kind == TYPE_CHAR || !can_bring(slot))
                return 0;
        for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++)
                if (convert_is_length(of[i], f->result, slot->name, type->inner[0]))
                        return 1;
        return 0;
}

static void set_slots(struct call *c)
{
        const struct function *f = c->f;

        for (size_t i = 0; i < f->parameter_count && i < INVOKE_ARGUMENTS_MAX; i++) {
                struct slot *slot = &c->slots[i];

                snprintf(slot->own_name, sizeof(slot->own_name), "#%zu", i + 1);
                slot->name = f->parameters[i].name ? f->parameters[i].name : slot->own_name;
                slot->type = f->parameters[i].type;
                slot->is_length = i > 0 && !slot[-1].is_length &&
                                  convert_is_length(slot[-1].name, slot[-1].type, slot->name, slot->type);
                if (!c->result_length && is_length_of_result(f, slot))
                        c->result_length = slot;
        }
        c->fixed = c->count = f->parameter_count;
}

/* True if it may be omitted. */
static int is_optional(const struct call *c, size_t i)
{
        const struct slot *slot = &c->slots[i];

        if (slot->is_length)
                return 1;
        if (i + 1 < c->fixed && slot[1].is_length)
                return can_bring(slot) && slot[1].given != NULL;
        return can_bring(slot) && slot->type->inner[0]->kind != TYPE_CHAR && slot->type->inner[0]->kind != TYPE_VOID;
}

void invoke_arity(const struct function *f, size_t *ret_least, size_t *ret_most)
{
        struct call c = {.f = f};

        *ret_least = *ret_most = f->parameter_count;
        if (f->parameter_count > INVOKE_ARGUMENTS_MAX) /* refused when it is called */
                return;
        set_slots(&c);
        *ret_least = 0;
        *ret_most = f->is_variadic ? INVOKE_ARGUMENTS_MAX : c.fixed;
        for (size_t i = 0; i < c.fixed; i++)
                *ret_least += !is_optional(&c, i);
}

/* -- binding -------------------------------------------------------------------------------------------------- */

static size_t visible_count(const struct call *c)
{
        size_t count = 0;

        for (size_t i = 0; i < c->fixed; i++)
                count += !c->slots[i].is_length;
        return count;
}

/* The slot of a position: lengths are skipped if there are fewer arguments than parameters. */
static struct slot *slot_at(struct call *c, size_t position, size_t positions)
{
        if (positions > visible_count(c))
                return position < c->fixed ? &c->slots[position] : NULL;
        for (size_t i = 0; i < c->fixed; i++)
                if (!c->slots[i].is_length && position-- == 0)
                        return &c->slots[i];
        return NULL;
}

static int bind_positions(struct call *c, size_t positions)
{
        const struct agent_request *q = c->v->request;

        for (size_t i = 0; i < json_array_size(q->args); i++) {
                struct slot *slot = slot_at(c, i, positions);

                if (!slot && c->f->is_variadic && c->count < INVOKE_ARGUMENTS_MAX && !agent_is_hole(q, i)) {
                        slot = &c->slots[c->count++];
                        snprintf(slot->own_name, sizeof(slot->own_name), "#%zu", i + 1);
                        slot->name = slot->own_name;
                }
                if (!slot)
                        return agent_throw(c->v->reply, "TypeError", NULL, "argument %zu is too many: %s", i + 1,
                                           c->f->prototype);
                if (!agent_is_hole(q, i))
                        slot->given = json_array_get(q->args, i);
                slot->argument = i;
        }
        return 0;
}

static struct slot *slot_named(struct call *c, const char *name, size_t positions)
{
        const json_t *order = c->v->request->order;

        for (size_t i = 0; i < c->fixed; i++)
                if (strcmp(c->slots[i].name, name) == 0)
                        return &c->slots[i];
        for (size_t i = 0; i < json_array_size(order); i++)
                if (strcmp(json_string_value(json_array_get(order, i)), name) == 0)
                        return slot_at(c, i, positions);
        return NULL;
}

static int bind_names(struct call *c, size_t positions)
{
        size_t argument = json_array_size(c->v->request->args);
        const char *name;
        json_t *value;

        json_object_foreach ((json_t *)c->v->request->kwargs, name, value) { /* NOLINT: only read */
                struct slot *slot = slot_named(c, name, positions);

                if (!slot)
                        return refuse_argument(c, name, "is unknown");
                if (slot->given)
                        return refuse_argument(c, name, "is given twice");
                slot->given = value;
                slot->argument = argument++;
        }
        return 0;
}

static int bind(struct call *c)
{
        const struct agent_request *q = c->v->request;
        size_t positions = json_array_size(q->args), named = json_array_size(q->order);

        if (c->fixed > INVOKE_ARGUMENTS_MAX)
                return refuse(c, "the function has too many parameters");
        if (positions < named && named <= c->fixed)
                positions = named;
        if (bind_positions(c, positions) < 0 || bind_names(c, positions) < 0)
                return -1;
        for (size_t i = 0; i < c->fixed; i++) {
                if (c->slots[i].given)
                        continue;
                if (!is_optional(c, i))
                        return refuse_argument(c, c->slots[i].name, "is missing");
                c->slots[i].is_out = !c->slots[i].is_length;
        }
        return 0;
}

int invoke_fit(const struct agent_request *q, const struct function *f, unsigned char ret[INVOKE_ARGUMENTS_MAX])
{
        struct agent_reply unheard = {.attachments = BUF_INIT(0)};
        const struct invocation v = {.request = q, .reply = &unheard};
        struct call c = {.v = &v, .f = f};
        int takes = !f->needs_object && json_array_size(q->args) + json_object_size(q->kwargs) <= INVOKE_ARGUMENTS_MAX;

        memset(ret, FIT_BEST, INVOKE_ARGUMENTS_MAX);
        set_slots(&c);
        takes = takes && bind(&c) == 0;
        json_decref(unheard.error);
        for (size_t i = 0; takes && i < c.count; i++) {
                const struct slot *slot = &c.slots[i];

                if (!slot->given)
                        continue;
                ret[slot->argument] = i < c.fixed ? fit_of(slot->given, slot->type) : FIT_FAR; /* variadic */
                takes = ret[slot->argument] != FIT_NEVER;
        }
        return takes;
}

/* -- values in ------------------------------------------------------------------------------------------------ */

static int64_t given_count(const struct slot *length)
{
        return json_is_integer(length->given) ? (int64_t)json_integer_value(length->given) : -1;
}

static int make_out(struct incoming *in, struct slot *slot, const struct slot *length)
{
        const struct type *target = slot->type->inner[0];
        int64_t count = length ? given_count(length) : 1;
        void *made;

        if (count < 0 || count > (INT64_C(1) << 40))
                return incoming_refuse(in, "the length '%s' must be an integer from 0", length->name);
        if (length && target->kind == TYPE_VOID)
                made = incoming_allocate(in, (size_t)count + 1);
        else
                made = incoming_allocate(in, ((size_t)count + 1) * target->size);
        if (!made)
                return -1;
        if (!length && target->kind >= TYPE_STRING && target->kind != TYPE_DURATION && target->kind != TYPE_TIME) {
                /* An object of the library is constructed empty, not zeroed. */
                json_t *empty = target->kind == TYPE_STRING || target->kind == TYPE_FILE_PATH ? json_string("")
                                : target->kind == TYPE_MAP || target->kind == TYPE_HASH_MAP   ? json_object()
                                : target->kind == TYPE_OPTIONAL                               ? json_null()
                                                                                              : json_array();
                int r = convert_in(in, target, empty, made);

                json_decref(empty);
                if (r < 0)
                        return r;
        }
        slot->was_list = length != NULL;
        slot->count = (size_t)count;
        memcpy(slot->value, &made, sizeof(made));
        return 0;
}

static int is_list(const struct agent_request *q, const struct slot *slot)
{
        const unsigned char *data;
        size_t size;

        return json_is_array(slot->given) || json_is_string(slot->given) || agent_bytes(q, slot->given, &data, &size);
}

static int read_list(struct incoming *in, struct slot *slot)
{
        void *made;
        int r = convert_elements(in, slot->type->inner[0], slot->given, &made, &slot->count);

        memcpy(slot->value, &made, sizeof(made));
        return r;
}

static int read_slot(struct call *c, struct incoming *in, size_t i)
{
        struct slot *slot = &c->slots[i], *length = i + 1 < c->fixed && slot[1].is_length ? &slot[1] : NULL;

        slot->value = incoming_allocate(in, slot->type->size < 16 ? 16 : slot->type->size);
        if (!slot->value)
                return -1;
        if (slot->is_out)
                return make_out(in, slot, length);
        slot->count = 1;
        slot->was_list = slot->type->kind == TYPE_POINTER && is_list(in->request, slot);
        /* Text ends with NUL if no other parameter has its length: then convert_in rejects inner NULs. */
        if (slot->type->kind == TYPE_POINTER &&
            (length || (slot->was_list && slot->type->inner[0]->kind != TYPE_CHAR)) &&
            (slot->type->inner[0]->kind != TYPE_VOID || length))
                return read_list(in, slot);
        if (slot->was_list)
                slot->count = json_string_length(slot->given) + 1;
        return convert_in(in, slot->type, slot->given, slot->value);
}

/* The length of the list before it: filled in, or checked. */
static int read_length(struct incoming *in, struct slot *slot)
{
        const struct slot *list = slot - 1;
        json_t *count;
        int r;

        if (slot->given) {
                slot->value = incoming_allocate(in, 16);
                if (!slot->value || convert_in(in, slot->type, slot->given, slot->value) < 0)
                        return -1;
                if (!list->is_out && (convert_integer_at(slot->type, slot->value) < 0 ||
                                      (uint64_t)convert_integer_at(slot->type, slot->value) > list->count))
                        return incoming_refuse(in, "more than the %zu elements of '%s'", list->count, list->name);
                return 0;
        }
        slot->value = incoming_allocate(in, 16);
        count = json_integer((json_int_t)list->count);
        r = slot->value ? convert_in(in, slot->type, count, slot->value) : -1;
        json_decref(count);
        return r;
}

/* The default promotions of C for variadic arguments. */
static int read_variadic(struct incoming *in, struct slot *slot)
{
        static const struct type integer = {.kind = TYPE_INTEGER, .name = "int", .size = 4, .align = 4, .is_signed = 1};
        static const struct type large = {.kind = TYPE_INTEGER, .name = "long", .size = 8, .align = 8, .is_signed = 1};
        static const struct type real = {.kind = TYPE_FLOAT, .name = "double", .size = 8, .align = 8};
        static const struct type character = {.kind = TYPE_CHAR, .name = "char", .size = 1, .align = 1, .is_signed = 1};
        static struct type *to_character[] = {(struct type *)&character}; /* NOLINT: never written */
        static const struct type text = {.kind = TYPE_POINTER,
                                         .name = "char *",
                                         .size = 8,
                                         .align = 8,
                                         .inner = to_character,
                                         .inner_count = 1};

        if (json_is_boolean(slot->given))
                slot->type = &integer;
        else if (json_is_integer(slot->given))
                slot->type =
                        json_integer_value(slot->given) == (int)json_integer_value(slot->given) ? &integer : &large;
        else if (json_is_real(slot->given) || (agent_tag(slot->given) && strcmp(agent_tag(slot->given), "number") == 0))
                slot->type = &real;
        else if (agent_tag(slot->given) && strcmp(agent_tag(slot->given), "bigint") == 0)
                slot->type = &large;
        else if (json_is_string(slot->given) || json_is_null(slot->given))
                slot->type = &text;
        else
                return incoming_refuse(in, "behind the dots only numbers, strings and null can be given");
        slot->value = incoming_allocate(in, 16);
        return slot->value ? convert_in(in, slot->type, slot->given, slot->value) : -1;
}

static int read_values(struct call *c)
{
        struct incoming in = {.request = c->v->request, .library = c->v->library};
        int r = 0;

        for (size_t i = 0; r == 0 && i < c->count; i++) {
                snprintf(in.path, sizeof(in.path), "%s", c->slots[i].name);
                in.depth = 0;
                r = i >= c->fixed           ? read_variadic(&in, &c->slots[i])
                    : c->slots[i].is_length ? read_length(&in, &c->slots[i])
                                            : read_slot(c, &in, i);
        }
        return r < 0 ? agent_throw(c->v->reply, "TypeError", NULL, "%s", in.why) : 0;
}

/* -- the call ------------------------------------------------------------------------------------------------- */

struct prepared {
        ffi_cif cif;
        ffi_type *types[INVOKE_ARGUMENTS_MAX + 1];
        void *values[INVOKE_ARGUMENTS_MAX + 1];
        void *object; /* where a result that is passed by reference is constructed */
        void *address;
        void *result;
};

static void do_call(void *data)
{
        struct prepared *p = data;

        ffi_call(&p->cif, FFI_FN(p->address), p->result, p->values);
}

static int prepare(struct call *c, struct prepared *p)
{
        const struct type *result = c->f->result;
        int is_empty, is_object = result->by_reference;
        ffi_type *type = passing_type(result, &is_empty);
        size_t count = 0, fixed = 0;

        if (!type)
                return agent_throw(c->v->reply, "TypeError", NULL,
                                   "$: %s is %s, which cannot be sent: " CONVERT_WAY_OUT "; returned by %s",
                                   result->name, result->why ? result->why : "packed", c->f->place);
        p->result = c->result = calloc(1, result->size + 64);
        if (is_object) {
                p->object = c->result;
                p->result = calloc(1, 64);
                p->types[0] = &ffi_type_pointer;
                p->values[0] = &p->object;
                fixed = count = 1;
        }
        for (size_t i = 0; i < c->count; i++) {
                struct slot *slot = &c->slots[i];
                ffi_type *argument = passing_type(slot->type, &is_empty);

                if (!argument)
                        return refuse_argument(c, slot->name, "cannot be passed by value");
                if (is_empty)
                        continue;
                p->types[count] = argument;
                p->values[count++] = slot->type->by_reference ? (void *)&slot->value : slot->value;
                fixed += i < c->fixed;
        }
        if ((c->f->is_variadic
                     ? ffi_prep_cif_var(&p->cif, FFI_DEFAULT_ABI, (unsigned)fixed, (unsigned)count, type, p->types)
                     : ffi_prep_cif(&p->cif, FFI_DEFAULT_ABI, (unsigned)count, type, p->types)) != FFI_OK)
                return refuse(c, "the function has types that cannot be passed");
        p->address = c->f->address;
        return 0;
}

static int run(const struct invocation *v, void (*work)(void *data), void *data)
{
        struct native_caught caught;
        int threw = 0;

        v->begin(v->data);
        if (v->catch)
                threw = v->catch (work, data, &caught);
        else
                work(data);
        v->end(v->data);
        return threw ? agent_throw(v->reply, caught.type, NULL, "%s", caught.message) : 0;
}

/* -- values out ----------------------------------------------------------------------------------------------- */

static json_t *write_slot(struct call *c, struct outgoing *out, const struct slot *slot)
{
        const struct type *target = slot->type->inner[0];
        const struct slot *length = slot + 1 < &c->slots[c->fixed] && slot[1].is_length ? &slot[1] : NULL;
        const void *to;

        memcpy(&to, slot->value, sizeof(to));
        if (!to)
                return json_null();
        if (target->kind == TYPE_VOID && !length)
                return outgoing_refuse(out, "a pointer to void cannot be sent: give it the type of its data");
        if (slot->was_list || target->kind == TYPE_VOID)
                return convert_elements_out(out, target, to, slot->count);
        return convert_out(out, target, to);
}

static json_t *write_result(struct call *c, struct outgoing *out)
{
        const void *to;
        int64_t count;

        if (!c->result_length || !c->result_length->is_out)
                return convert_out(out, c->f->result, c->result);
        memcpy(&to, c->result_length->value, sizeof(to));
        count = convert_integer_at(c->result_length->type->inner[0], to);
        memcpy(&to, c->result, sizeof(to));
        if (to && (count < 0 || count > (INT64_C(1) << 40)))
                return outgoing_refuse(out, "the function says that there are %lld elements", (long long)count);
        return convert_elements_out(out, c->f->result->inner[0], to, (size_t)count);
}

/* The results of the function: its return value; values written through omitted pointers; in a
 * function without return value also those through given pointers. */
static json_t *write_all(struct call *c, struct outgoing *out)
{
        int is_void = c->f->result->kind == TYPE_VOID, brought = 0;
        json_t *object = json_object(), *only = NULL, *value;

        if (!is_void) {
                value = write_result(c, out);
                if (!value || json_object_set_new(object, "result", value) < 0)
                        goto failed;
                only = value;
        }
        for (size_t i = 0; i < c->fixed; i++) {
                const struct slot *slot = &c->slots[i];
                size_t before;

                if (!can_bring(slot) || (!slot->is_out && !is_void) || (slot == c->result_length && slot->is_out) ||
                    (slot->given && slot->type->inner[0]->kind == TYPE_VOID && !slot->was_list))
                        continue;
                before = outgoing_enter(out, ".%s", slot->name);
                value = write_slot(c, out, slot);
                if (!value || json_object_set_new(object, slot->name, value) < 0)
                        goto failed;
                outgoing_leave(out, before);
                only = value;
                brought++;
        }
        if (brought + !is_void == 1)
                json_incref(only);
        else
                only = brought + !is_void > 0 ? json_incref(object) : json_null();
        json_decref(object);
        return only;
failed:
        json_decref(object);
        return NULL;
}

static int reply(struct call *c)
{
        struct outgoing out = {.reply = c->v->reply};

        c->v->reply->value = write_all(c, &out);
        if (c->v->reply->value)
                return 0;
        if (out.is_too_large)
                return agent_throw(c->v->reply, "ValueError", NULL,
                                   "the result is %zu bytes or more, over the limit of %zu (resultBytes)", out.spent,
                                   c->v->reply->result_bytes);
        return agent_throw(c->v->reply, "TypeError", NULL, "%s; returned by %s",
                           *out.why ? out.why : "$: no memory for the result", c->f->place);
}

int invoke(const struct invocation *v, const struct function *f)
{
        struct call *c = calloc(1, sizeof(*c));
        struct prepared *p = calloc(1, sizeof(*p));
        int r = -1;

        if (!c || !p)
                return agent_throw(v->reply, "MemoryError", NULL, "no memory for the call");
        c->v = v;
        c->f = f;
        set_slots(c);
        if (f->needs_object)
                refuse(c, "a member function needs an object, which cannot be given");
        else if (bind(c) == 0 && read_values(c) == 0 && prepare(c, p) == 0 && run(v, do_call, p) == 0)
                r = reply(c);
        v->reply->signature_source = v->request->order ? "schema" : "inferred";
        return r;
}

/* -- main ----------------------------------------------------------------------------------------------------- */

struct main_call {
        void *address;
        int count;
        char **words;
        int result;
};

static void do_main(void *data)
{
        struct main_call *m = data;
        int (*main_function)(int, char **);

        memcpy(&main_function, &m->address, sizeof(main_function));
        m->result = main_function(m->count, m->words);
}

static char *word_of(const struct agent_request *q, const json_t *value)
{
        size_t size;

        if (!json_is_string(value))
                return agent_json_text(q, value, &size);
        return memchr(json_string_value(value), '\0', json_string_length(value)) ? NULL
                                                                                 : strdup(json_string_value(value));
}

static int words_of(const struct invocation *v, const char *name, int *ret_count, char ***ret)
{
        const struct agent_request *q = v->request;
        size_t count = json_array_size(q->args);
        char **words = calloc(count + 2, sizeof(*words));

        if (json_object_size(q->kwargs))
                return agent_throw(v->reply, "TypeError", NULL, "main takes no arguments by name: '%s'",
                                   json_object_iter_key(json_object_iter((json_t *)q->kwargs))); /* NOLINT: only read */
        words[0] = strdup(name);
        for (size_t i = 0; i < count; i++) {
                words[i + 1] = word_of(q, json_array_get(q->args, i));
                if (!words[i + 1])
                        return agent_throw(v->reply, "TypeError", NULL, "argument %zu: the string has a NUL in it",
                                           i + 1);
        }
        *ret_count = (int)count + 1;
        *ret = words;
        return 0;
}

static json_t *words_json(char **words)
{
        json_t *array = json_array();

        for (; *words; words++)
                json_array_append_new(array, agent_text(*words, strlen(*words)));
        return array;
}

int invoke_main(const struct invocation *v, const struct function *f, const char *name)
{
        struct main_call m = {.address = f->address};

        if (words_of(v, name, &m.count, &m.words) < 0)
                return -1;
        v->reply->signature_source = v->request->order ? "schema" : "convention";
        if (f->result->kind != TYPE_INTEGER ||
            f->result->size != sizeof(int)) { /* a body of C++: its type is its own */
                struct agent_request request = *v->request;
                struct invocation other = *v;
                json_t *args = json_pack("[i, o]", m.count, words_json(m.words)), *none = json_object(),
                       *no_holes = json_array();
                int r;

                request.args = args;
                request.kwargs = none;
                request.holes = no_holes;
                request.order = NULL;
                other.request = &request;
                r = invoke(&other, f);
                v->reply->signature_source = v->request->order ? "schema" : "convention";
                json_decref(args);
                json_decref(none);
                json_decref(no_holes);
                return r;
        }
        if (run(v, do_main, &m) < 0)
                return -1;
        v->reply->value = json_integer(m.result);
        return 0;
}
