/* Classes of GNU's C++ library in memory. Their layouts are its ABI, the same since GCC 5
 * (2015); objects are made exactly as its own code would make them, so that user code may change
 * and free them. Elements are made where they stay: a std::string must not be moved by copying
 * its bytes. */
#include "convert.h"

#include <stdlib.h>
#include <string.h>

#define HASH_SEED 0xc70f6907
#define DEQUE_NODE_BYTES 512

struct string {
        char *data;
        size_t size;
        char local[16];
};

struct view {
        size_t size;
        const char *data;
};

struct vector {
        char *start, *finish, *end;
};

struct bits {
        struct {
                uint64_t *word;
                unsigned bit;
        } start, finish;
        uint64_t *end;
};

struct link {
        struct link *next, *previous;
};

struct list {
        struct link ends;
        size_t count;
};

struct deque_place {
        char *current, *first, *last, **node;
};

struct deque {
        char **map;
        size_t map_size;
        struct deque_place start, finish;
};

struct tree_node {
        int color;
        struct tree_node *parent, *left, *right;
};

struct tree {
        char compare[8];
        struct tree_node header;
        size_t count;
};

struct hash_node {
        struct hash_node *next;
};

struct hash_table {
        struct hash_node **buckets;
        size_t bucket_count;
        struct hash_node first;
        size_t count;
        float max_load;
        size_t next_resize;
        struct hash_node *single;
};

static size_t round_up(size_t size, size_t align)
{
        return align ? (size + align - 1) / align * align : size;
}

/* The offset of the mapped value in a std::pair<const K, V>, and the size of the pair. */
static size_t mapped_offset(const struct type *type)
{
        return round_up(type->inner[0]->size, type->inner[1]->align);
}

static size_t entry_align(const struct type *type)
{
        size_t align = type->inner[0]->align;

        return type->inner_count > 1 && type->inner[1]->align > align ? type->inner[1]->align : align;
}

static size_t entry_size(const struct type *type)
{
        if (type->inner_count < 2)
                return type->inner[0]->size;
        return round_up(mapped_offset(type) + type->inner[1]->size, entry_align(type));
}

/* -- in: sequences -------------------------------------------------------------------------------------------- */

static int string_in(struct incoming *in, const struct type *type, const json_t *value, struct string *at)
{
        const unsigned char *data = NULL;
        char text[80];
        size_t size;

        if (json_is_string(value)) {
                data = (const unsigned char *)json_string_value(value);
                size = json_string_length(value);
        } else if (!agent_bytes(in->request, value, &data, &size)) {
                return incoming_refuse(in, "%s is not a string (%s)", convert_describe(value, text, sizeof(text)),
                                       type->name);
        }
        at->data = at->local;
        at->size = size;
        if (size >= sizeof(at->local)) {
                at->data = incoming_allocate(in, size + 1);
                if (!at->data)
                        return -1;
                memcpy(at->local, &size, sizeof(size)); /* the capacity */
        }
        if (size)
                memcpy(at->data, data, size);
        at->data[size] = '\0';
        return 0;
}

static int view_in(struct incoming *in, const struct type *type, const json_t *value, struct view *at)
{
        struct string *text = incoming_allocate(in, sizeof(*text));

        if (!text || string_in(in, type, value, text) < 0)
                return -1;
        *at = (struct view){text->size, text->data};
        return 0;
}

/* The items of a value for a container that is not contiguous. */
static json_t *items_of(struct incoming *in, const struct type *type, const json_t *value)
{
        const char *tag = agent_tag(value);
        const unsigned char *data;
        char text[80];
        json_t *array;
        size_t size;

        if (json_is_array(value))
                return json_incref((json_t *)value); /* NOLINT: only counted */
        if (tag && strcmp(tag, "set") == 0)
                return json_incref(json_object_get(value, "v"));
        if (tag && strcmp(tag, "bytes") == 0 && agent_bytes(in->request, value, &data, &size)) {
                array = json_array();
                for (size_t i = 0; i < size; i++)
                        json_array_append_new(array, json_integer(data[i]));
                return array;
        }
        incoming_refuse(in, "%s is not an array (%s)", convert_describe(value, text, sizeof(text)), type->name);
        return NULL;
}

static int item_in(struct incoming *in, const struct type *type, const json_t *items, size_t i, void *at)
{
        size_t before = incoming_enter(in, "[%zu]", i);
        int r = convert_in(in, type, json_array_get(items, i), at);

        incoming_leave(in, before);
        return r;
}

static int vector_in(struct incoming *in, const struct type *type, const json_t *value, struct vector *at)
{
        const struct type *element = type->inner[0];
        const char *tag = agent_tag(value);
        const unsigned char *data;
        void *elements = NULL;
        char text[80];
        size_t count = 0;

        if (!json_is_array(value) && !agent_bytes(in->request, value, &data, &count) &&
            !(tag && strcmp(tag, "set") == 0))
                return incoming_refuse(in, "%s is not an array (%s)", convert_describe(value, text, sizeof(text)),
                                       type->name);
        if (convert_elements(in, element, value, &elements, &count) < 0)
                return -1;
        at->start = elements;
        at->finish = at->end = at->start + count * element->size;
        return 0;
}

static int bits_in(struct incoming *in, const struct type *type, const json_t *value, struct bits *at)
{
        json_t *items = items_of(in, type, value);
        size_t count = json_array_size(items), words = (count + 63) / 64;
        uint64_t *memory = items ? incoming_allocate(in, words * 8) : NULL;
        int r = memory ? 0 : -1;

        for (size_t i = 0; r == 0 && i < count; i++) {
                char bit = 0;

                r = item_in(in, type->inner[0], items, i, &bit);
                memory[i / 64] |= (uint64_t)(bit != 0) << i % 64;
        }
        json_decref(items);
        if (r < 0 || count == 0)
                return r;
        at->start.word = memory;
        at->finish.word = memory + count / 64;
        at->finish.bit = (unsigned)(count % 64);
        at->end = memory + words;
        return 0;
}

static int list_in(struct incoming *in, const struct type *type, const json_t *value, struct list *at)
{
        json_t *items = items_of(in, type, value);
        size_t offset = round_up(sizeof(struct link), type->inner[0]->align);
        int r = items ? 0 : -1;

        at->ends = (struct link){&at->ends, &at->ends};
        for (size_t i = 0; r == 0 && i < json_array_size(items); i++) {
                struct link *made = incoming_allocate(in, offset + type->inner[0]->size);

                r = made ? item_in(in, type->inner[0], items, i, (char *)made + offset) : -1;
                if (r < 0)
                        break;
                *made = (struct link){&at->ends, at->ends.previous};
                at->ends.previous->next = made;
                at->ends.previous = made;
                at->count++;
        }
        json_decref(items);
        return r;
}

static size_t deque_node_count(const struct type *element)
{
        return element->size < DEQUE_NODE_BYTES && element->size ? DEQUE_NODE_BYTES / element->size : 1;
}

static void deque_place(struct deque_place *place, char **node, size_t index, const struct type *element)
{
        size_t per_node = deque_node_count(element);

        place->node = node + index / per_node;
        place->first = *place->node;
        place->last = place->first + per_node * element->size;
        place->current = place->first + index % per_node * element->size;
}

static int deque_in(struct incoming *in, const struct type *type, const json_t *value, struct deque *at)
{
        const struct type *element = type->inner[0];
        json_t *items = items_of(in, type, value);
        size_t count = json_array_size(items), per_node = deque_node_count(element), nodes = count / per_node + 1;
        char **first;
        int r = items ? 0 : -1;

        at->map_size = nodes + 2 > 8 ? nodes + 2 : 8;
        at->map = incoming_allocate(in, at->map_size * sizeof(*at->map));
        if (!at->map)
                r = -1;
        first = r == 0 ? at->map + (at->map_size - nodes) / 2 : NULL;
        for (size_t i = 0; r == 0 && i < nodes; i++) {
                first[i] = incoming_allocate(in, per_node * element->size);
                r = first[i] ? 0 : -1;
        }
        for (size_t i = 0; r == 0 && i < count; i++)
                r = item_in(in, element, items, i, first[i / per_node] + i % per_node * element->size);
        json_decref(items);
        if (r < 0)
                return r;
        deque_place(&at->start, first, 0, element);
        deque_place(&at->finish, first, count, element);
        return 0;
}

/* -- in: maps and sets ---------------------------------------------------------------------------------------- */

/* Integers, floats and text have an order and a hash here; nothing else may be a key of an argument. */
static int is_key(const struct type *type)
{
        switch (type->kind) {
        case TYPE_BOOL:
        case TYPE_CHAR:
        case TYPE_INTEGER:
        case TYPE_ENUM:
                return type->size <= 8;
        case TYPE_FLOAT:
                return type->size <= 8;
        case TYPE_STRING:
        case TYPE_STRING_VIEW:
                return 1;
        default:
                return 0;
        }
}

static struct view text_at(const struct type *type, const void *at)
{
        const struct string *text = at;

        return type->kind == TYPE_STRING ? (struct view){text->size, text->data} : *(const struct view *)at;
}

static double real_at(const struct type *type, const void *at)
{
        float single;
        double twice;

        if (type->size == sizeof(double)) {
                memcpy(&twice, at, sizeof(twice));
                return twice;
        }
        memcpy(&single, at, sizeof(single));
        return (double)single;
}

static int compare_text(struct view a, struct view b)
{
        size_t common = a.size < b.size ? a.size : b.size;
        int r = common ? memcmp(a.data, b.data, common) : 0;

        return r ? r : (a.size > b.size) - (a.size < b.size);
}

static int compare(const struct type *type, const void *a, const void *b)
{
        if (type->kind == TYPE_STRING || type->kind == TYPE_STRING_VIEW)
                return compare_text(text_at(type, a), text_at(type, b));
        if (type->kind == TYPE_FLOAT) {
                double x = real_at(type, a), y = real_at(type, b);

                return (x > y) - (x < y);
        }
        if (type->is_signed || type->size < 8) {
                int64_t x = convert_integer_at(type, a), y = convert_integer_at(type, b);

                return (x > y) - (x < y);
        } else {
                uint64_t x = (uint64_t)convert_integer_at(type, a), y = (uint64_t)convert_integer_at(type, b);

                return (x > y) - (x < y);
        }
}

static size_t hash(const struct native_library *library, const struct type *type, const void *at)
{
        if (type->kind == TYPE_STRING || type->kind == TYPE_STRING_VIEW) {
                struct view text = text_at(type, at);

                return library->hash_bytes(text.data, text.size, HASH_SEED);
        }
        if (type->kind == TYPE_FLOAT)
                return real_at(type, at) == 0 ? 0 : library->hash_bytes(at, type->size, HASH_SEED);
        return (size_t)convert_integer_at(type, at);
}

struct entries {
        json_t *keys;   /* array */
        json_t *values; /* array; NULL for sets */
};

static void entries_done(struct entries *e)
{
        json_decref(e->keys);
        json_decref(e->values);
}

/* Objects of JSON have text keys: such a key may be an integer. */
static json_t *key_of_text(const struct type *type, const char *text)
{
        char *end;
        long long number;

        if ((type->kind != TYPE_INTEGER && type->kind != TYPE_ENUM) || !*text)
                return json_string(text);
        number = strtoll(text, &end, 10);
        return *end ? json_string(text) : json_integer(number);
}

static int map_entries(struct incoming *in, const struct type *type, const json_t *value, struct entries *e)
{
        const char *tag = agent_tag(value), *key;
        const json_t *pairs = tag ? json_object_get(value, "v") : NULL;
        json_t *item;
        char text[80];
        size_t i;

        if (!json_is_object(value) || (tag && strcmp(tag, "map") != 0 && strcmp(tag, "object") != 0))
                return incoming_refuse(in, "%s is not an object or a map (%s)",
                                       convert_describe(value, text, sizeof(text)), type->name);
        e->keys = json_array();
        e->values = json_array();
        if (tag) {
                json_array_foreach ((json_t *)pairs, i, item) { /* NOLINT: only read */
                        json_array_append(e->keys, json_array_get(item, 0));
                        json_array_append(e->values, json_array_get(item, 1));
                }
                return 0;
        }
        json_object_foreach ((json_t *)value, key, item) { /* NOLINT: only read */
                json_array_append_new(e->keys, key_of_text(type->inner[0], key));
                json_array_append(e->values, item);
        }
        return 0;
}

/* An array of pairs, in which a key may occur twice. */
static int pair_entries(struct incoming *in, const struct type *type, const json_t *value, struct entries *e)
{
        json_t *pair;
        size_t i;

        e->keys = json_array();
        e->values = json_array();
        json_array_foreach ((json_t *)value, i, pair) { /* NOLINT: only read */
                if (!json_is_array(pair) || json_array_size(pair) != 2)
                        return incoming_refuse(in, "[%zu] is not a pair, [key, value] (%s)", i, type->name);
                json_array_append(e->keys, json_array_get(pair, 0));
                json_array_append(e->values, json_array_get(pair, 1));
        }
        return 0;
}

static int read_entries(struct incoming *in, const struct type *type, const json_t *value, struct entries *e)
{
        if (!is_key(type->inner[0]))
                return incoming_refuse(in, "keys of the type %s cannot be made (%s)", type->inner[0]->name, type->name);
        if (type->is_multi && (type->kind == TYPE_HASH_MAP || type->kind == TYPE_HASH_SET))
                return incoming_refuse(in, "%s cannot be made: take a std::multimap or multiset", type->name);
        if (type->is_ordered_otherwise)
                return incoming_refuse(in, "%s has an order or a hash of its own", type->name);
        if (type->inner_count > 1)
                return type->is_multi && json_is_array(value) ? pair_entries(in, type, value, e)
                                                              : map_entries(in, type, value, e);
        e->keys = items_of(in, type, value);
        return e->keys ? 0 : -1;
}

/* Convert the key, and for maps the value, at at. */
static int entry_in(struct incoming *in, const struct type *type, const struct entries *e, size_t i, char *at)
{
        const json_t *key = json_array_get(e->keys, i);
        char text[80];
        size_t before = incoming_enter(in, "[%s]", convert_describe(key, text, sizeof(text)));
        int r = convert_in(in, type->inner[0], key, at);

        if (r == 0 && e->values)
                r = convert_in(in, type->inner[1], json_array_get(e->values, i), at + mapped_offset(type));
        incoming_leave(in, before);
        return r;
}

static int tree_insert(struct incoming *in, const struct type *type, struct tree *at, struct tree_node *node,
                       size_t offset)
{
        struct tree_node *parent = &at->header, *next = at->header.parent;
        int is_left = 1;

        while (next) {
                int order = compare(type->inner[0], (char *)node + offset, (char *)next + offset);

                if (order == 0 && !type->is_multi)
                        return incoming_refuse(in, "a key is there twice (%s)", type->name);
                is_left = type->is_descending ? order > 0 : order < 0;
                parent = next;
                next = is_left ? next->left : next->right;
        }
        in->library->insert_and_rebalance(is_left != 0, node, parent, &at->header);
        at->count++;
        return 0;
}

static int tree_in(struct incoming *in, const struct type *type, const json_t *value, struct tree *at)
{
        size_t offset = round_up(sizeof(struct tree_node), entry_align(type));
        struct entries e = {0};
        int r = read_entries(in, type, value, &e);

        at->header.left = at->header.right = &at->header;
        if (r == 0 && !in->library->insert_and_rebalance)
                r = incoming_refuse(in, "the C++ library is not there");
        for (size_t i = 0; r == 0 && i < json_array_size(e.keys); i++) {
                struct tree_node *node = incoming_allocate(in, offset + entry_size(type));

                r = node ? entry_in(in, type, &e, i, (char *)node + offset) : -1;
                if (r == 0)
                        r = tree_insert(in, type, at, node, offset);
        }
        entries_done(&e);
        return r;
}

static void hash_insert(const struct incoming *in, const struct type *type, struct hash_table *at,
                        struct hash_node *node, size_t offset)
{
        struct hash_node **bucket =
                &at->buckets[hash(in->library, type->inner[0], (char *)node + offset) % at->bucket_count];

        if (*bucket) {
                node->next = (*bucket)->next;
                (*bucket)->next = node;
        } else {
                node->next = at->first.next;
                at->first.next = node;
                if (node->next)
                        at->buckets[hash(in->library, type->inner[0], (char *)node->next + offset) % at->bucket_count] =
                                node;
                *bucket = &at->first;
        }
        at->count++;
}

static int hash_has(const struct incoming *in, const struct type *type, const struct hash_table *at, const void *key,
                    size_t offset)
{
        size_t bucket = hash(in->library, type->inner[0], key) % at->bucket_count;

        for (struct hash_node *n = at->buckets[bucket] ? at->buckets[bucket]->next : NULL; n; n = n->next) {
                if (hash(in->library, type->inner[0], (char *)n + offset) % at->bucket_count != bucket)
                        break;
                if (compare(type->inner[0], (char *)n + offset, key) == 0)
                        return 1;
        }
        return 0;
}

static int hash_make(struct incoming *in, struct hash_table *at, size_t count)
{
        at->max_load = 1;
        at->bucket_count = count ? count * 2 + 1 : 1;
        at->buckets = count ? incoming_allocate(in, at->bucket_count * sizeof(*at->buckets)) : &at->single;
        at->next_resize = count ? at->bucket_count : 0;
        return at->buckets ? 0 : -1;
}

static int hash_in(struct incoming *in, const struct type *type, const json_t *value, struct hash_table *at)
{
        size_t offset = round_up(sizeof(struct hash_node), entry_align(type)),
               code = round_up(offset + entry_size(type), 8);
        struct entries e = {0};
        int r = read_entries(in, type, value, &e);

        if (r == 0 && !in->library->hash_bytes)
                r = incoming_refuse(in, "the C++ library is not there");
        if (r == 0)
                r = hash_make(in, at, json_array_size(e.keys));
        for (size_t i = 0; r == 0 && i < json_array_size(e.keys); i++) {
                /* Nodes of some keys store their hash after them; the others do not use these bytes. */
                struct hash_node *node = incoming_allocate(in, code + sizeof(size_t));

                r = node ? entry_in(in, type, &e, i, (char *)node + offset) : -1;
                if (r < 0)
                        break;
                if (hash_has(in, type, at, (char *)node + offset, offset)) {
                        r = incoming_refuse(in, "a key is there twice (%s)", type->name);
                        break;
                }
                *(size_t *)((char *)node + code) = hash(in->library, type->inner[0], (char *)node + offset);
                hash_insert(in, type, at, node, offset);
        }
        entries_done(&e);
        return r;
}

/* -- in: the others ------------------------------------------------------------------------------------------- */

static int pair_in(struct incoming *in, const struct type *type, const json_t *value, char *at)
{
        char text[80];
        int r = 0;

        if (!json_is_array(value) || json_array_size(value) != type->member_count)
                return incoming_refuse(in, "%s is not an array of %zu (%s)",
                                       convert_describe(value, text, sizeof(text)), type->member_count, type->name);
        for (size_t i = 0; r == 0 && i < type->member_count; i++)
                r = item_in(in, type->members[i].type, value, i, at + type->members[i].offset);
        return r;
}

static int optional_in(struct incoming *in, const struct type *type, const json_t *value, char *at)
{
        const char *tag = agent_tag(value);

        if (json_is_null(value) || (tag && (strcmp(tag, "undefined") == 0 || strcmp(tag, "hole") == 0)))
                return 0;
        at[type->inner[0]->size] = 1;
        return convert_in(in, type->inner[0], value, at);
}

static int suits(const struct type *type, const json_t *value)
{
        const char *tag = agent_tag(value);

        switch (type->kind) {
        case TYPE_BOOL:
                return json_is_boolean(value);
        case TYPE_INTEGER:
                return json_is_integer(value) || (tag && strcmp(tag, "bigint") == 0);
        case TYPE_FLOAT:
                return json_is_real(value) || (tag && strcmp(tag, "number") == 0);
        case TYPE_STRING:
        case TYPE_STRING_VIEW:
                return json_is_string(value);
        default:
                return !json_is_string(value) && !json_is_number(value) && !json_is_boolean(value);
        }
}

static size_t variant_index_offset(const struct type *type)
{
        size_t size = 1;

        for (size_t i = 0; i < type->inner_count; i++)
                if (type->inner[i]->size > size)
                        size = type->inner[i]->size;
        return round_up(size, type->align);
}

/* The first alternative that the value fits best, else the first that takes it. */
static int variant_in(struct incoming *in, const struct type *type, const json_t *value, char *at)
{
        size_t index = variant_index_offset(type);
        unsigned was_trying = in->is_trying;
        int depth = in->depth;
        char text[80];

        for (size_t round = 0; round < 2; round++)
                for (size_t i = 0; i < type->inner_count; i++) {
                        int r;

                        if (round == 0 && !suits(type->inner[i], value))
                                continue;
                        memset(at, 0, type->size);
                        in->is_trying = 1;
                        r = convert_in(in, type->inner[i], value, at);
                        in->is_trying = was_trying;
                        in->depth = depth;
                        if (r == 0) {
                                at[index] = (char)i;
                                return 0;
                        }
                }
        return incoming_refuse(in, "%s is none of the alternatives of %s", convert_describe(value, text, sizeof(text)),
                               type->name);
}

static int owner_in(struct incoming *in, const struct type *type, const json_t *value, void **at)
{
        if (json_is_null(value))
                return 0;
        *at = incoming_allocate(in, type->inner[0]->size);
        return *at ? convert_in(in, type->inner[0], value, *at) : -1;
}

static int path_in(struct incoming *in, const struct type *type, const json_t *value, char *at)
{
        int r = string_in(in, type, value, (struct string *)at);

        if (r < 0)
                return r;
        if (!in->library->make_path_list || !in->library->split_path)
                return incoming_refuse(in, "the C++ library has no paths");
        in->library->make_path_list(at + sizeof(struct string));
        in->library->split_path(at);
        return 0;
}

int library_in(struct incoming *in, const struct type *type, const json_t *value, void *at)
{
        switch (type->kind) {
        case TYPE_STRING:
                return string_in(in, type, value, at);
        case TYPE_STRING_VIEW:
                return view_in(in, type, value, at);
        case TYPE_VECTOR:
                return vector_in(in, type, value, at);
        case TYPE_BITS:
                return bits_in(in, type, value, at);
        case TYPE_LIST:
                return list_in(in, type, value, at);
        case TYPE_DEQUE:
                return deque_in(in, type, value, at);
        case TYPE_MAP:
        case TYPE_SET:
                return tree_in(in, type, value, at);
        case TYPE_HASH_MAP:
        case TYPE_HASH_SET:
                return hash_in(in, type, value, at);
        case TYPE_PAIR:
                return pair_in(in, type, value, at);
        case TYPE_OPTIONAL:
                return optional_in(in, type, value, at);
        case TYPE_VARIANT:
                return variant_in(in, type, value, at);
        case TYPE_UNIQUE:
        case TYPE_SHARED: /* without a counter, which is allowed: it is never freed */
                return owner_in(in, type, value, at);
        case TYPE_DURATION:
                return duration_in(in, type, value, at);
        case TYPE_TIME:
                return time_in(in, type, value, at);
        case TYPE_FILE_PATH:
                return path_in(in, type, value, at);
        default:
                return incoming_refuse(in, "no value can be %s", type->name);
        }
}

/* -- out ------------------------------------------------------------------------------------------------------ */

/* Steals item. */
static int append_item(struct outgoing *out, json_t *array, json_t *item)
{
        if (!item || !outgoing_spend(out, 1, item))
                return -1;
        return json_array_append_new(array, item);
}

static int append_at(struct outgoing *out, json_t *array, const struct type *type, const void *at)
{
        size_t before = outgoing_enter(out, "[%zu]", json_array_size(array));
        int r = append_item(out, array, convert_out(out, type, at));

        if (r == 0)
                outgoing_leave(out, before);
        return r;
}

static json_t *finish(json_t *array, int r)
{
        if (r == 0)
                return array;
        json_decref(array);
        return NULL;
}

static json_t *text_out(struct outgoing *out, struct view text)
{
        json_t *made = text.size <= out->reply->result_bytes ? json_stringn(text.data, text.size) : NULL;

        if (made || text.size > out->reply->result_bytes)
                return outgoing_spend(out, text.size + 2, made);
        return outgoing_spend(out, text.size, agent_attach(out->reply, text.data, text.size));
}

static json_t *bits_out(struct outgoing *out, const struct bits *at)
{
        size_t count =
                at->start.word ? (size_t)(at->finish.word - at->start.word) * 64 + at->finish.bit - at->start.bit : 0;
        json_t *array = outgoing_spend(out, 2, json_array());

        for (size_t i = 0; array && i < count; i++) {
                size_t bit = at->start.bit + i;

                if (append_item(out, array,
                                outgoing_spend(out, 4, json_boolean(at->start.word[bit / 64] >> bit % 64 & 1))) < 0)
                        return finish(array, -1);
        }
        return array;
}

static json_t *list_out(struct outgoing *out, const struct type *type, const struct list *at)
{
        size_t offset = round_up(sizeof(struct link), type->inner[0]->align);
        json_t *array = outgoing_spend(out, 2, json_array());
        int r = array ? 0 : -1;

        for (const struct link *link = at->ends.next; r == 0 && link != &at->ends; link = link->next)
                r = append_at(out, array, type->inner[0], (const char *)link + offset);
        return finish(array, r);
}

static json_t *deque_out(struct outgoing *out, const struct type *type, const struct deque *at)
{
        json_t *array = outgoing_spend(out, 2, json_array());
        char *current = at->start.current, *last = at->start.last, **node = at->start.node;
        int r = array ? 0 : -1;

        while (r == 0 && current != at->finish.current) {
                r = append_at(out, array, type->inner[0], current);
                current += type->inner[0]->size;
                if (current == last) {
                        current = *++node;
                        last = current + deque_node_count(type->inner[0]) * type->inner[0]->size;
                }
        }
        return finish(array, r);
}

static const struct tree_node *tree_next(const struct tree_node *node, const struct tree_node *header)
{
        if (node->right) {
                node = node->right;
                while (node->left)
                        node = node->left;
                return node;
        }
        while (node->parent != header && node == node->parent->right)
                node = node->parent;
        return node->parent;
}

static int is_text(const struct type *type)
{
        return type->kind == TYPE_STRING || type->kind == TYPE_STRING_VIEW || type->kind == TYPE_ENUM;
}

struct gathering {
        struct outgoing *out;
        const struct type *type;
        json_t *items; /* of keys, or of pairs */
        int is_plain;  /* an object of JSON can hold it */
};

static int gather(struct gathering *g, const char *at)
{
        size_t before = strlen(g->out->path);
        json_t *key = convert_out(g->out, g->type->inner[0], at), *value;

        if (!key)
                return -1;
        if (g->type->inner_count < 2)
                return append_item(g->out, g->items, key);
        g->is_plain &= json_is_string(key) && strlen(json_string_value(key)) == json_string_length(key) &&
                       strcmp(json_string_value(key), "$") != 0;
        if (json_is_string(key))
                outgoing_enter(g->out, "[\"%.40s\"]", json_string_value(key));
        value = convert_out(g->out, g->type->inner[1], at + mapped_offset(g->type));
        if (!value) {
                json_decref(key);
                return -1;
        }
        outgoing_leave(g->out, before);
        return append_item(g->out, g->items, json_pack("[o, o]", key, value));
}

/* An object if JSON can hold it; else the form of spec/values.md. */
static json_t *gathered(struct gathering *g, int r)
{
        json_t *made, *pair;
        size_t i;

        if (r < 0)
                return finish(g->items, -1);
        if (g->type->is_multi)
                return g->items;
        if (g->type->inner_count < 2)
                return outgoing_spend(g->out, 18, json_pack("{s:s, s:o}", "$", "set", "v", g->items));
        if (!g->is_plain)
                return outgoing_spend(g->out, 18,
                                      json_pack("{s:s, s:o}", "$", is_text(g->type->inner[0]) ? "object" : "map", "v",
                                                g->items));
        made = json_object();
        json_array_foreach (g->items, i, pair)
                json_object_set(made, json_string_value(json_array_get(pair, 0)), json_array_get(pair, 1));
        json_decref(g->items);
        return made;
}

static json_t *tree_out(struct outgoing *out, const struct type *type, const struct tree *at)
{
        struct gathering g = {.out = out, .type = type, .items = json_array(), .is_plain = is_text(type->inner[0])};
        size_t offset = round_up(sizeof(struct tree_node), entry_align(type));
        const struct tree_node *node = at->header.left;
        int r = 0;

        for (size_t i = 0; r == 0 && i < at->count; i++) {
                r = gather(&g, (const char *)node + offset);
                node = tree_next(node, &at->header);
        }
        return gathered(&g, r);
}

static json_t *hash_out(struct outgoing *out, const struct type *type, const struct hash_table *at)
{
        struct gathering g = {.out = out, .type = type, .items = json_array(), .is_plain = is_text(type->inner[0])};
        size_t offset = round_up(sizeof(struct hash_node), entry_align(type));
        int r = 0;

        for (const struct hash_node *node = at->first.next; r == 0 && node; node = node->next)
                r = gather(&g, (const char *)node + offset);
        return gathered(&g, r);
}

static json_t *pair_out(struct outgoing *out, const struct type *type, const char *at)
{
        json_t *array = outgoing_spend(out, 2, json_array());
        int r = array ? 0 : -1;

        for (size_t i = 0; r == 0 && i < type->member_count; i++)
                r = append_at(out, array, type->members[i].type, at + type->members[i].offset);
        return finish(array, r);
}

static json_t *variant_out(struct outgoing *out, const struct type *type, const char *at)
{
        unsigned char index = (unsigned char)at[variant_index_offset(type)];

        if (index >= type->inner_count)
                return outgoing_refuse(out, "the variant has no value (%s)", type->name);
        if (type->inner[index]->kind == TYPE_STRUCT && type->inner[index]->member_count == 0)
                return outgoing_spend(out, 4, json_null());
        return convert_out(out, type->inner[index], at);
}

static json_t *owner_out(struct outgoing *out, const struct type *type, void *const *at)
{
        return *at ? convert_out(out, type->inner[0], *at) : outgoing_spend(out, 4, json_null());
}

static json_t *vector_out(struct outgoing *out, const struct type *type, const struct vector *at)
{
        const struct type *element = type->inner[0];

        if (!at->start)
                return element->is_byte ? agent_attach(out->reply, "", 0) : outgoing_spend(out, 2, json_array());
        if (element->kind == TYPE_CHAR) /* all of it: a vector may contain NUL */
                return text_out(out, (struct view){(size_t)(at->finish - at->start), at->start});
        return convert_elements_out(out, element, at->start,
                                    (size_t)(at->finish - at->start) / (element->size ? element->size : 1));
}

json_t *library_out(struct outgoing *out, const struct type *type, const void *at)
{
        switch (type->kind) {
        case TYPE_STRING:
        case TYPE_STRING_VIEW:
                return text_out(out, text_at(type, at));
        case TYPE_VECTOR:
                return vector_out(out, type, at);
        case TYPE_BITS:
                return bits_out(out, at);
        case TYPE_LIST:
                return list_out(out, type, at);
        case TYPE_DEQUE:
                return deque_out(out, type, at);
        case TYPE_MAP:
        case TYPE_SET:
                return tree_out(out, type, at);
        case TYPE_HASH_MAP:
        case TYPE_HASH_SET:
                return hash_out(out, type, at);
        case TYPE_PAIR:
                return pair_out(out, type, at);
        case TYPE_OPTIONAL:
                return ((const char *)at)[type->inner[0]->size] ? convert_out(out, type->inner[0], at)
                                                                : outgoing_spend(out, 4, json_null());
        case TYPE_VARIANT:
                return variant_out(out, type, at);
        case TYPE_UNIQUE:
        case TYPE_SHARED:
                return owner_out(out, type, at);
        case TYPE_DURATION:
                return duration_out(out, type, at);
        case TYPE_TIME:
                return time_out(out, type, at);
        case TYPE_FILE_PATH: /* a string, and its parts */
                return text_out(out,
                                (struct view){((const struct string *)at)->size, ((const struct string *)at)->data});
        default:
                return outgoing_refuse(out, "%s cannot be sent", type->name);
        }
}
