/* Conversion of the wire's values into the memory of the user's program, and back. */
#ifndef CLOCHE_NATIVE_CONVERT_H
#define CLOCHE_NATIVE_CONVERT_H

#include "box/agent/agent.h"
#include "types.h"

#define CONVERT_DEPTH_MAX 200

/* Functions of the loaded program: its own allocation if it has one, and parts of the C++ library. */
struct native_library {
        void *(*allocate)(size_t size);
        void (*insert_and_rebalance)(_Bool left, void *node, void *parent,
                                     void *header);                       /* std::_Rb_tree_insert_and_rebalance */
        size_t (*hash_bytes)(const void *data, size_t size, size_t seed); /* std::_Hash_bytes */
        void (*make_path_list)(void *at), (*split_path)(void *path);      /* of std::filesystem::path */
};

struct incoming {
        const struct agent_request *request;
        const struct native_library *library;
        char path[160]; /* of the current value: "rows[2].x" */
        int depth;
        char why[600];          /* set by the first failure */
        unsigned is_trying : 1; /* failures are not reported */
};

struct outgoing {
        struct agent_reply *reply;
        char path[160];
        int depth;
        size_t spent; /* approximate bytes of text so far */
        unsigned is_too_large : 1;
        char why[600];
};

/* A value, constructed at at, which has type->size zeroed bytes. 0, or -1 with in->why. */
int convert_in(struct incoming *in, const struct type *type, const json_t *value, void *at);

/* Elements for a pointer to element: an array, a typed array, bytes, a string, or one value.
 * null: no elements at NULL. After the last there is one that is all zero. */
int convert_elements(struct incoming *in, const struct type *element, const json_t *value, void **ret,
                     size_t *ret_count);

/* The value at at; a new reference, or NULL with out->why. */
json_t *convert_out(struct outgoing *out, const struct type *type, const void *at);
json_t *convert_elements_out(struct outgoing *out, const struct type *element, const void *at, size_t count);

/* True if an integer called name of that type is the length of the array that the pointer called of points to. */
int convert_is_length(const char *of, const struct type *pointer, const char *name, const struct type *type);

int incoming_refuse(struct incoming *in, const char *format, ...) __attribute__((format(printf, 2, 3)));
void *incoming_allocate(struct incoming *in, size_t size);
size_t incoming_enter(struct incoming *in, const char *format, ...) __attribute__((format(printf, 2, 3)));
void incoming_leave(struct incoming *in, size_t before);
#define CONVERT_WAY_OUT "return its data in a struct of public members, an array or a string"
json_t *outgoing_refuse(struct outgoing *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* NULL, and is_too_large, if the result has become too large. */
json_t *outgoing_spend(struct outgoing *out, size_t size, json_t *value);
size_t outgoing_enter(struct outgoing *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
void outgoing_leave(struct outgoing *out, size_t before);
/* A description of value for messages: "abc", 2.5, an array. */
const char *convert_describe(const json_t *value, char *ret, size_t size);
/* Integers of up to 128 bits at at. */
int64_t convert_integer_at(const struct type *type, const void *at);

/* library.c: the classes of the C++ library. */
int library_in(struct incoming *in, const struct type *type, const json_t *value, void *at);
json_t *library_out(struct outgoing *out, const struct type *type, const void *at);

/* chrono.c: durations and times. */
int duration_in(struct incoming *in, const struct type *type, const json_t *value, void *at);
json_t *duration_out(struct outgoing *out, const struct type *type, const void *at);
int time_in(struct incoming *in, const struct type *type, const json_t *value, void *at);
json_t *time_out(struct outgoing *out, const struct type *type, const void *at);

#endif
